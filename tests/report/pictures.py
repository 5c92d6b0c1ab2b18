# SPDX-License-Identifier: Apache-2.0
"""Makes docs/report.png, the top of the demo's page, and in tests/report/kept what was looked at last, at two sizes in
both themes, half as large; with a folder as argument, pictures of whole pages in it of some recordings, to be looked at
after a change.

    python3 -B tests/report/pictures.py [FOLDER [RECORDING...]]"""
import os
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, f"{here}/../aid")
import chromium
import test_report
from test_report import REPLAYS

PICTURE = f"{here}/../../docs/report.png"
KEPT = f"{here}/kept"
SIZES = ((1280, 800), (390, 844))
SHOWN = ("demo", "autopsy_python", "f04_deadlock_blocked", "gpu_health", "healthy")


def page(room, name):
    path = name if name.endswith(".html") else f"{room}/{os.path.basename(name)}.html"
    if not name.endswith(".html"):
        test_report.run("report", "-q", f"{REPLAYS}/{name}.rtr", "-o", path)
    return path


def keep(browser, path):
    """The upper part of the page, of the wide one its heat map."""
    os.makedirs(KEPT, exist_ok=True)
    for width, height in SIZES:
        for dark in (False, True):
            browser.size(width, height, dark, scale=0.5)
            browser.open(path)
            browser.ask('document.querySelector("canvas[role=application]").closest("section").scrollIntoView()')
            browser.picture(f"{KEPT}/demo-{width}-{'dark' if dark else 'light'}.png")


def main(arguments):
    chromium.needed()
    browser = chromium.Browser()
    with tempfile.TemporaryDirectory(prefix="ranktrace-pictures-") as room:
        if not arguments:
            browser.size(1280, 960, scale=0.75)
            browser.open(page(room, "demo"))
            browser.picture(PICTURE)
            keep(browser, page(room, "demo"))
        for name in arguments[1:] or SHOWN if arguments else ():
            for width, height in SIZES:
                for dark in (False, True):
                    browser.size(width, height, dark)
                    browser.open(page(room, name))
                    title = os.path.basename(name).replace(".html", "")
                    browser.picture(f"{arguments[0]}/{title}-{width}-{'dark' if dark else 'light'}.png", whole=True)
    browser.end()


if __name__ == "__main__":
    main(sys.argv[1:])
