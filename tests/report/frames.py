# SPDX-License-Identifier: Apache-2.0
"""Frame rate of a report's heat map while it is dragged and zoomed, in headless Chromium, which draws on the CPU.

    REPORT_OUT=/tmp/large.html build/tests/test_report_large && python3 -B tests/report/frames.py /tmp/large.html

Pointer and wheel events are given to the canvas, one a frame; the time between frames is what requestAnimationFrame
says. Each line: what was done, frames a second by the median of these times, by the slowest 5 % and by the slowest."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "aid"))
import chromium

# f(i): what happens in frame i
DRIVE = """
(async () => {
  const c = document.querySelector("canvas[role=application]"), box = c.getBoundingClientRect(), times = [], draws = [];
  const draw = c.heatView.draw.bind(c.heatView);
  c.heatView.draw = () => { const t = performance.now(); draw(); draws.push(performance.now() - t); };
  const at = (type, x, y, more) => c.dispatchEvent(new (type === "wheel" ? WheelEvent : PointerEvent)(type, {
    clientX: box.left + x, clientY: box.top + y, pointerId: 1, bubbles: true, cancelable: true, ...more }));
  c.setPointerCapture = () => {};
  const step = (i) => { %s };
  await new Promise(done => {
    let i = 0, last = performance.now();
    const frame = (now) => {
      times.push(now - last); last = now;
      if (i++ >= %d) return done();
      step(i); requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  c.heatView.draw = draw;
  const sorted = (l) => [...l].sort((a, b) => a - b), t = sorted(times.slice(2)), d = sorted(draws);
  return JSON.stringify({ median_ms: t[t.length >> 1], slow_ms: t[Math.floor(t.length * 0.95)],
    worst_ms: t[t.length - 1], draws: draws.length,
    draw_ms: d[d.length >> 1] });
})()
"""
PAN = 'if (i === 1) at("pointerdown", 600, 200, {}); at("pointermove", 600 - 300 * Math.sin(i / 20), 200 - 80 * ' \
      'Math.sin(i / 13), {}); if (i === FRAMES) at("pointerup", 600, 200, {});'
ZOOM = 'at("wheel", 500 + i, 180, { deltaY: Math.sin(i / 19) > 0 ? -60 : 60, ctrlKey: true });'
FRAMES = 240


def measure(page, out=print):
    """{what: figures}"""
    browser, figures = chromium.Browser(), {}
    try:
        browser.size(1280, 800)
        browser.open(page)
        browser.ask('new Promise(done => { const c = document.querySelector("canvas[role=application]"), wait = () => '
                    'c.heatView.levels.step ? done() : setTimeout(wait, 50); wait(); })')
        browser.ask('document.querySelector("canvas[role=application]").scrollIntoView()')
        for what, drive in (("zoom from all to cells and back", ZOOM),
                            ("pan, all of it joined to levels", 'c.heatView.zoom(1.0 + (i === 1) * 0.4);' + PAN),
                            ("pan among cells", 'if (i === 1) { c.heatView.reset(); c.heatView.zoom(9); }' + PAN)):
            drive = drive.replace("FRAMES", str(FRAMES))
            f = figures[what] = json.loads(browser.ask(DRIVE % (drive, FRAMES)))
            out(f"  {what}: {1000 / f['median_ms']:.0f} frames/s, slowest 5 %: {1000 / f['slow_ms']:.0f}, "
                f"slowest: {1000 / f['worst_ms']:.0f}; {f['draws']} draws of {f['draw_ms']:.1f} ms")
        figures["errors"] = browser.errors
    finally:
        browser.end()
    return figures


if __name__ == "__main__":
    chromium.needed()
    errors = measure(sys.argv[1])["errors"]
    sys.exit(f"errors in the page: {errors}" if errors else 0)
