# SPDX-License-Identifier: Apache-2.0
"""Reports in headless Chromium: no error, no request, nothing wider than the window, at two sizes in both themes; the
keyboard moves the heat map; hostile names run nothing, and the page's policy refuses a script that is not its own."""
import os
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, f"{here}/../aid")
import chromium
import test_report
from test_report import REPLAYS, check, run

NAMES = ("demo", "f04_deadlock_blocked", "f06_nested", "f18_init", "gpu_health", "healthy", "autopsy_python",
         "f17_eval")
SIZES = ((1280, 800), (390, 844))
CANVAS = 'document.querySelector("canvas[role=application]")'


def check_shown(browser, name, path, width, dark):
    what = f"{name} at {width}, {'dark' if dark else 'light'}"
    data = test_report.read_page(path)[0]
    browser.errors.clear()
    browser.asked.clear()
    browser.open(path)
    check(not browser.errors, f"{what}: {browser.errors}")
    check(set(browser.asked) <= {"file://" + path}, f"{what} asks for {browser.asked}")
    check(browser.ask("document.documentElement.scrollWidth <= innerWidth"), f"{what}: wider than the window")
    check(browser.ask('document.querySelector("h1").textContent') == data["summary"]["said"][0], f"{what}: h1")
    shown = browser.ask('[...document.querySelectorAll(".finding .sentence")].map(e => e.textContent)')
    check(sorted(shown) == sorted(f["sentence"] for f in data["findings"])[:100], f"{what}: {shown}")
    background = browser.ask("getComputedStyle(document.body).backgroundColor")
    check((background == "rgb(16, 19, 23)") == dark, f"{what}: {background}")
    unnamed = browser.ask('[...document.querySelectorAll("canvas, svg[role=img], input, button, section")].filter(e => '
                          '!e.closest("[aria-hidden]") && !e.textContent.trim() && !e.ariaLabel).length')
    check(not unnamed, f"{what}: {unnamed} things that a screen reader has no name for")
    check(browser.ask('document.querySelectorAll("[tabindex]:not([tabindex=\\"0\\"]):not([tabindex=\\"-1\\"])").length')
          == 0, f"{what}: an order of tabs of its own")


def check_keyboard(browser, path):
    browser.size(1280, 800)
    browser.open(path)
    view = f"JSON.stringify([{CANVAS}.heatView.x, {CANVAS}.heatView.w])"
    said = 'document.querySelector(".readout").textContent'
    for _ in range(80):  # as one gets there by tabs
        browser.key("Tab", code="Tab", windowsVirtualKeyCode=9)
        if browser.ask(f"document.activeElement === {CANVAS}"):
            break
    check(browser.ask(f"document.activeElement === {CANVAS}"), "no way to the heat map by tabs")
    before, words = browser.ask(view), browser.ask(said)
    browser.key("ArrowRight", code="ArrowRight")
    check(browser.ask(said) != words and browser.ask(said).startswith("Rank "), browser.ask(said))
    for _ in range(6):
        browser.key("+", text="+")
    zoomed = browser.ask(view)
    check(zoomed != before, "plus does not zoom")
    browser.key("ArrowLeft", code="ArrowLeft", modifiers=8)
    check(browser.ask(view) != zoomed, "shift and an arrow do not pan")
    browser.key("0", text="0")
    check(browser.ask(f"new Promise(done => requestAnimationFrame(() => done({view})))") == before, "0 shows not all")


def check_cells(browser, path):
    """What is under a cell, as the readout has it: rank 3 is late in every step from the eighth on."""
    browser.open(path)
    late = browser.ask(f"(() => {{ const v = {CANVAS}.heatView, m = v.map, cells = v.levels.late.get(0, 0).cells; "
                       "return m.rows.map((r, i) => { let n = 0; "
                       "for (let c = 10; c < 35; c++) n += lateOf(m, cells[i * "
                       "m.n_cols + c]) > 0.012; return n; }); })()")
    check(late[3] >= 20 and max(late[:3] + late[4:]) <= 8, f"steps in which each rank was late: {late}")
    worst = browser.ask(f"(() => {{ const l = {CANVAS}.heatView.levels.late, a = l.get(0, 0), b = l.get(1, 2); return "
                        "[Math.max(...a.cells), Math.max(...b.cells), b.rows, b.cols, a.cols]; })()")
    check(worst[0] == worst[1] and worst[2] == 4 and worst[3] == -(-worst[4] // 4), f"joined levels: {worst}")


def check_theme(browser):
    browser.ask('document.querySelector(".switch").click()')
    browser.ask('document.querySelector(".switch").click()')
    check(browser.ask("getComputedStyle(document.body).backgroundColor") == "rgb(16, 19, 23)", "the switch to dark")
    browser.size(1280, 800, media="print")
    check(browser.ask('getComputedStyle(document.querySelector("nav")).display') == "none", "print has links")
    check(browser.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)", "print is not white")


def check_hostile(browser, path):
    browser.size(1280, 800)
    browser.errors.clear()
    browser.open(path)
    check(browser.ask("typeof pwned") == "undefined" and not browser.errors, f"hostile names ran: {browser.errors}")
    check(browser.ask('document.querySelectorAll("img").length') == 0, "markup of a name")
    check("onerror" in browser.ask('document.querySelector(".tree").textContent'), "the frames are not shown")
    browser.ask('{ const s = document.createElement("script"); s.textContent = "pwned = 1"; document.body.append(s); }')
    check(browser.ask("typeof pwned") == "undefined" and browser.errors, "a script of another's ran")
    got = browser.ask('fetch("https://127.0.0.1:9/").then(() => "fetched", () => "refused")')
    check(got == "refused" and any("Content Security Policy" in e or "content security" in e.lower()
                                   for e in browser.errors), f"{got} {browser.errors}")


def main():
    chromium.needed()
    with tempfile.TemporaryDirectory(prefix="ranktrace-page-") as room:
        for name in NAMES:
            check(run("report", "-q", f"{REPLAYS}/{name}.rtr", "-o", f"{room}/{name}.html").returncode < 2, name)
        evil = test_report.hostile_page(room)
        browser = chromium.Browser()
        try:
            for width, height in SIZES:
                for dark in (False, True):
                    browser.size(width, height, dark)
                    for name in NAMES:
                        check_shown(browser, name, f"{room}/{name}.html", width, dark)
            check_keyboard(browser, f"{room}/demo.html")
            check_cells(browser, f"{room}/demo.html")
            check_theme(browser)
            check_hostile(browser, evil)
        finally:
            browser.end()
    print(f"  {len(NAMES)} pages at {len(SIZES)} sizes in two themes, keys, cells, print, policy")


if __name__ == "__main__":
    main()
