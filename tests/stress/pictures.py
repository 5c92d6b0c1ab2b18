# SPDX-License-Identifier: Apache-2.0
"""Makes docs/stress.png, the top of the page of `ranktrace stress all` on a simulated machine with a bad GPU and a bad
link; with a folder as argument, pictures of the whole page in it, at two sizes in both themes, to be looked at.

    python3 -B tests/stress/pictures.py [FOLDER]"""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, f"{here}/../aid")
import chromium
from stress import QUICK, Gpus, stress

PICTURE = f"{here}/../../docs/stress.png"


def main(arguments):
    chromium.needed()
    g = Gpus(8, SIM_P2P_SLOW="1-2:60", SIM_GEMM_FLIP="5:5:7:0:9", SIM_GPU_HEAT="1")
    page = f"{g.dir}/report.html"
    print(stress(g, *QUICK[:-1], "12", "--html", page).stdout)  # so long that curves have a shape
    browser = chromium.Browser()
    if not arguments:
        browser.size(1280, 1500, scale=0.75)
        browser.open(page)
        browser.picture(PICTURE)
    for width in (1280, 390) if arguments else ():
        for dark in (False, True):
            browser.size(width, 800, dark)
            browser.open(page)
            browser.picture(f"{arguments[0]}/stress-{width}-{'dark' if dark else 'light'}.png", whole=True)
    print(browser.errors)
    browser.end()


if __name__ == "__main__":
    main(sys.argv[1:])
