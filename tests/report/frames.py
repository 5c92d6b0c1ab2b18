# SPDX-License-Identifier: Apache-2.0
"""Frame rate of a report's heat map while it is dragged and zoomed, in headless Chromium, which draws on the CPU.

    REPORT_OUT=/tmp/large.html build/tests/test_report_large && python3 -B tests/report/frames.py /tmp/large.html

Pointer and wheel events are given to the canvas, one a frame. Two measures:

- what a frame takes: CPU time of all of the browser's threads from one frame to the next, by the browser's own trace.
  1 s / this is the rate that a machine of one core shows, whatever else runs beside the test;
- what was shown: the time between frames, as requestAnimationFrame says. On a busy machine it is that machine's.

Of both the median, the slowest 5 % and the slowest."""
import bisect
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "aid"))
import chromium

# f(i): what happens in frame i
DRIVE = """
(async () => {
  const c = document.querySelector("canvas[role=application]"), box = c.getBoundingClientRect(), times = [];
  let draws = 0;
  const draw = c.heatView.draw.bind(c.heatView);
  c.heatView.draw = () => { draws++; draw(); };
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
  const sorted = (l) => [...l].sort((a, b) => a - b), t = sorted(times.slice(2));
  return JSON.stringify({ median_ms: t[t.length >> 1], slow_ms: t[Math.floor(t.length * 0.95)],
    worst_ms: t[t.length - 1], draws });
})()
"""
TASKS = ("ThreadControllerImpl::RunTask", "ThreadPool_RunTask")
PAN = 'if (i === 1) at("pointerdown", 600, 200, {}); at("pointermove", 600 - 300 * Math.sin(i / 20), 200 - 80 * ' \
      'Math.sin(i / 13), {}); if (i === FRAMES) at("pointerup", 600, 200, {});'
ZOOM = 'at("wheel", 500 + i, 180, { deltaY: Math.sin(i / 19) > 0 ? -60 : 60, ctrlKey: true });'
FRAMES = 240


def cpu_ms(events):
    """Of each frame, sorted. A frame begins with the main thread's task that runs the page's callbacks."""
    tasks = [e for e in events if e["ph"] == "X" and e["name"] in TASKS]
    fired = sorted(e["ts"] for e in events if e["name"] == "FireAnimationFrame" and e["ph"] == "X")
    thread = next((e["pid"], e["tid"]) for e in events if e["name"] == "FireAnimationFrame")
    main = sorted((e["ts"], e["dur"]) for e in tasks if (e["pid"], e["tid"]) == thread)
    begins = sorted({t for t, dur in main if bisect.bisect(fired, t) < bisect.bisect(fired, t + dur)})
    cpu = [0.0] * len(begins)
    for e in tasks:
        i = bisect.bisect(begins, e["ts"]) - 1
        if i >= 0:
            cpu[i] += e["tdur"] / 1e3
    return sorted(cpu[2:-1])


def rates(ms):
    return {"median": 1000 / ms[len(ms) // 2], "slow": 1000 / ms[int(len(ms) * 0.95)], "worst": 1000 / ms[-1]}


def words(of):
    return f"{of['median']:.0f}, slowest 5 %: {of['slow']:.0f}, slowest: {of['worst']:.0f}"


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
            said, events = browser.trace(DRIVE % (drive, FRAMES))
            f, needed = json.loads(said), cpu_ms(events)
            f = figures[what] = {"shown": {k: 1000 / f[k + "_ms"] for k in ("median", "slow", "worst")},
                                 "by_cpu": rates(needed), "frames": len(needed), "draws": f["draws"]}
            out(f"  {what}: {f['draws']} draws; frames/s by CPU time: {words(f['by_cpu'])}; "
                f"shown: {words(f['shown'])}")
        figures["errors"] = browser.errors
    finally:
        browser.end()
    return figures


if __name__ == "__main__":
    chromium.needed()
    errors = measure(sys.argv[1])["errors"]
    sys.exit(f"errors in the page: {errors}" if errors else 0)
