#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# timeline_svg.py - draws the README's picture: a lane per rank in which compute, wait and transfer are distinguished,
# the whole run on top, and below it one panel per finding with a caption in words. Light and dark by the reader's
# scheme.
#   ranktrace replay demo.rtr --ops > ops.jsonl; ranktrace replay demo.rtr --json > incidents.jsonl
#   tools/timeline_svg.py ops.jsonl incidents.jsonl out.svg
#
# Of an operation: wait is the time from this rank's entering it to the last rank's, transfer the time from then to the
# end as inferred on the host. Compute is all other time of a rank; where a finding says that the rank slept or was
# blocked, it is drawn as that.
import argparse
import json
import math
import os
import statistics
import sys
from collections import defaultdict
from xml.sax.saxutils import escape

WIDTH, MARGIN, LEFT, PIXEL = 900, 16, 64, 0.5
PLOT = WIDTH - LEFT - MARGIN
COMPUTE, WAIT, TRANSFER, HELD = "compute", "wait", "transfer", "held"
LEGEND = [(COMPUTE, "computes"), (WAIT, "waits for another rank"), (TRANSFER, "transfers data"),
          (HELD, "asleep or blocked")]
SILENT = {"observation", "lost_events", "unobserved", "slow_step"}
ORDER = {"straggler": 0, "d_state": 1, "hang": 1}
PANELS_MAX = 3
STYLE = """
text { fill: #1f2328; } .faint { fill: #59636e; } .bold { font-weight: 600; }
.paper { fill: #ffffff; stroke: #d1d9e0; } .grid { stroke: #d1d9e0; } .found { stroke: #cf222e; stroke-dasharray: 5 3; }
.compute { fill: #2f6fb5; } .wait { fill: #f2c661; } .transfer { fill: #1a936f; } .held { fill: #cf222e; }
.culprit { fill: none; stroke: #cf222e; stroke-width: 1.5; } .badge { fill: #cf222e; } .onbadge { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc; } .faint { fill: #9da7b3; }
.paper { fill: #0d1117; stroke: #3d444d; } .grid { stroke: #3d444d; } .found { stroke: #ff7b72; }
.compute { fill: #58a6ff; } .wait { fill: #7a5f1d; } .transfer { fill: #3fcf9f; } .held { fill: #f85149; }
.culprit { stroke: #ff7b72; } .badge { fill: #f85149; } .onbadge { fill: #0d1117; }
}
"""


def read_lines(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.strip()]


class Finding:
    """One finding from open to close; the last line of it says what it turned out to be."""

    def __init__(self, line):
        self.begin, self.opened, self.end, self.last = line["since_ns"], line["t_ns"], None, line

    def follow(self, line):
        self.last = line
        self.end = line["t_ns"] if line["phase"] == "close" else None

    @property
    def rank(self):
        return self.last["ranks"][0]

    @property
    def is_hold(self):
        return self.last["kind"] in ("hang", "d_state", "stopped")

    def kind(self):
        return "/".join(filter(None, (self.last["kind"], self.last["class"])))


def findings_of(lines):
    """In order of time; consequences of others, observations, and findings that name no rank are left out."""
    found = {}
    for line in lines:
        if line["kind"] in SILENT or line.get("caused_by") or not line["ranks"]:
            found.pop(line["id"], None)
        elif line["id"] in found:
            found[line["id"]].follow(line)
        else:
            found[line["id"]] = Finding(line)
    return sorted(found.values(), key=lambda f: f.begin)


class Job:
    """Who computed, waited and transferred when: [(begin, end, what)] per rank, disjoint, in order of time."""

    def __init__(self, ops, findings):
        ops = [o for o in ops if o["rank"] is not None and o["comm"]]
        if not ops:
            sys.exit("no operation of a known rank in the input")
        self.findings = findings
        self.ranks = sorted({o["rank"] for o in ops})
        self.t0 = min(o["t_ns"] for o in ops)
        self.t1 = max(max(o["end_ns"] or o["t_ns"] for o in ops), max([f.opened for f in findings], default=0))
        self.spans = {rank: self.spans_of(parts) for rank, parts in self.parts_of(ops).items()}
        for f in (f for f in findings if f.is_hold and f.end):
            f.end = self.goes_on(sorted(o["t_ns"] for o in ops if o["rank"] == f.rank), f)

    @staticmethod
    def goes_on(calls, f):
        """A finding closes a moment after its rank goes on: that is the call after the longest silence."""
        silences = [(b - a, b) for a, b in zip(calls, calls[1:]) if f.begin < b < f.end]
        return max(silences)[1] if silences else f.end

    def parts_of(self, ops):
        """{rank: [(arrived, all arrived, end)]}; a rank arrives once the one before on that communicator ended."""
        arrived, ends, free = defaultdict(dict), {}, {}
        for o in sorted(ops, key=lambda o: o["t_ns"]):
            lane, key = (o["rank"], o["comm"]), (o["comm"], o["op"] if o["peer"] is not None else "", o["seq"])
            arrived[key][o["rank"]] = max(o["t_ns"], free.get(lane, 0))
            ends[key, o["rank"]] = o["end_ns"] or self.t1
            free[lane] = ends[key, o["rank"]]
        parts = defaultdict(list)
        for key, members in arrived.items():
            last = max(members.values())
            for rank, at in members.items():
                parts[rank].append((at, min(max(last, at), ends[key, rank]), ends[key, rank]))
        return parts

    @staticmethod
    def spans_of(parts):
        """Transfer hides wait: both at once is progress."""
        edges = []
        for at, last, end in parts:
            edges += [(at, WAIT, 1), (last, WAIT, -1), (last, TRANSFER, 1), (end, TRANSFER, -1)]
        spans, open_, begin, what = [], {WAIT: 0, TRANSFER: 0}, None, None
        for at, kind, step in sorted(edges, key=lambda e: e[0]):
            if what and at > begin:
                spans.append((begin, at, what))
            open_[kind] += step
            what = TRANSFER if open_[TRANSFER] else WAIT if open_[WAIT] else None
            begin = at
        return spans

    def share(self, rank, what, begin, end):
        """Of [begin, end], in ns; compute is what is neither wait nor transfer."""
        if what == COMPUTE:
            return end - begin - self.share(rank, WAIT, begin, end) - self.share(rank, TRANSFER, begin, end)
        return sum(max(0, min(e, end) - max(b, begin)) for b, e, w in self.spans[rank] if w == what)

    def pixels(self, rank, begin, end, width):
        """The lane in [begin, end] as runs of pixels [x0, x1, what]: in each what took most of it."""
        n = int(width / PIXEL)
        held = [(f.begin, f.end or self.t1) for f in self.findings if f.is_hold and rank in f.last["ranks"]]
        took = [[0.0, 0.0] for _ in range(n)]
        for b, e, what in self.spans[rank]:
            x0, x1 = (b - begin) / (end - begin) * n, (e - begin) / (end - begin) * n
            for x in range(max(0, int(x0)), min(n, math.ceil(x1))):
                took[x][what == TRANSFER] += min(x1, x + 1) - max(x0, x)
        runs = []
        for x, (wait, transfer) in enumerate(took):
            at = begin + (x + 0.5) / n * (end - begin)
            rest = HELD if any(b <= at <= e for b, e in held) else COMPUTE
            what = max((1 - wait - transfer, rest), (wait, WAIT), (transfer, TRANSFER))[1]
            if runs and runs[-1][2] == what:
                runs[-1][1] = x + 1
            else:
                runs.append([x, x + 1, what])
        return [(x0 * PIXEL, x1 * PIXEL, what) for x0, x1, what in runs]


class Canvas:
    def __init__(self):
        self.parts = []

    def add(self, text):
        self.parts.append(text)

    def text(self, x, y, text, size, classes="", anchor="start"):
        self.add('<text x="%.1f" y="%.1f" font-size="%g" class="%s" text-anchor="%s">%s</text>' % (
            x, y, size, classes, anchor, escape(text)))

    def badge(self, x, y, number):
        self.add('<circle cx="%.1f" cy="%.1f" r="9" class="badge"/>' % (x, y))
        self.text(x, y + 4.5, str(number), 12.5, "onbadge bold", "middle")


def tick_step(span_s):
    rough = span_s / 9
    power = 10 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)


def draw_lanes(job, canvas, y, lane_h, begin, end, culprits):
    """Lanes of all ranks, one path for each of the four kinds; and the axis. Returns where it ends."""
    paths = defaultdict(list)
    for i, rank in enumerate(job.ranks):
        top = y + i * lane_h
        canvas.text(LEFT - 8, top + lane_h / 2 + 4.5, "rank %d" % rank, 12.5,
                    "bold" if rank in culprits else "faint", "end")
        for x0, x1, what in job.pixels(rank, begin, end, PLOT):
            paths[what].append("M%g %gh%gv%gh-%gz" % (LEFT + x0, top + 1, x1 - x0, lane_h - 2, x1 - x0))
    for what, d in paths.items():
        canvas.add('<path class="%s" d="%s"/>' % (what, "".join(d)))
    bottom, span = y + len(job.ranks) * lane_h, (end - begin) / 1e9
    step, first = tick_step(span), (begin - job.t0) / 1e9
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    at = math.ceil(first / step - 1e-9) * step
    while at <= first + span:
        x = LEFT + (at - first) / span * PLOT
        canvas.add('<path class="grid" d="M%.1f %.1fv4"/>' % (x, bottom))
        if LEFT + 8 < x < WIDTH - MARGIN - 12:
            canvas.text(x, bottom + 16, "%.*f s" % (digits, at), 11.5, "faint", "middle")
        at += step
    return bottom + 24


def outline(canvas, job, f, y, lane_h, begin, end):
    """The culprits' lanes from the fault's begin to its end, and the moment at which it was reported."""
    def x_of(ns):
        return LEFT + (min(max(ns, begin), end) - begin) / (end - begin) * PLOT
    x0, x1 = x_of(f.begin), x_of(f.end or end)
    for rank in (r for r in f.last["ranks"] if r in job.ranks):
        canvas.add('<rect class="culprit" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>' % (
            x0, y + job.ranks.index(rank) * lane_h, max(x1 - x0, 2), lane_h))
    if begin < f.opened < end:
        x, bottom = x_of(f.opened), y + len(job.ranks) * lane_h
        canvas.add('<path class="found" d="M%.1f %.1fV%.1f"/>' % (x, y - 4, bottom))
        canvas.text(x + 4 if x < WIDTH - 120 else x - 4, y - 7, "reported", 11.5, "faint",
                    "start" if x < WIDTH - 120 else "end")


def window_of(job, f):
    """A window in which the fault can be read: its begin and its report, or some iterations of a straggler."""
    if not f.is_hold:
        step_s = next((v for k, v in f.last["evidence"].items() if k in ("step_s", "step")), 0.25)
        span = int(4 * step_s * 1e9)
        return max(f.opened - int(0.9 * span), job.t0), f.opened + int(0.1 * span)
    end = f.end or f.opened
    pad = int((end - f.begin) * 0.12)
    return max(f.begin - pad, job.t0), min(end + pad, job.t1)


def others_waiting(job, f, begin, end):
    others = [r for r in job.ranks if r not in f.last["ranks"]]
    return sum(job.share(r, WAIT, begin, end) > 0.1 * (end - begin) for r in others)


def captions(job, f, begin, end):
    """What happened, in words; and what ranktrace said of it."""
    line, n = f.last, others_waiting(job, f, begin, end)
    who = "Rank %s" % ", ".join(map(str, line["ranks"]))
    waiting = "%d rank%s wait%s" % (n, "s" if n != 1 else "", "" if n != 1 else "s")
    for_s = "%.1f s" % (((f.end or end) - f.begin) / 1e9)
    if line["kind"] == "straggler":
        # Over the iterations since the fault began: a single one is the host's jitter.
        mine = job.share(f.rank, COMPUTE, f.begin, f.opened)
        peers = statistics.median(job.share(r, COMPUTE, f.begin, f.opened) for r in job.ranks if r not in line["ranks"])
        verb = "computes" if (line["cause"] or "").startswith("gpu") else "takes"
        what = "%s %s %.0f %% longer: %s" % (who, verb, 100 * (mine / peers - 1), waiting)
    elif line["kind"] == "d_state" or line["class"] == "host_blocked":
        what = "%s is blocked in the kernel for %s: %s" % (who, for_s, waiting)
    elif line["class"] == "missing_enter" and line["cause"] == "asleep":
        what = "%s sleeps for %s and does not enter %s #%s: %s" % (who, for_s, line["op"], line["seq"], waiting)
    else:
        what = "%s, %s for %s: %s" % (who, f.kind().replace("_", " "), for_s, waiting)
    said = "%s, reported after %.1f s" % (f.kind(), max(f.opened - f.begin, 0) / 1e9)
    blocked_by = [line["evidence"].get("wchan"), os.path.basename(line["evidence"].get("file") or "")]
    if any(blocked_by):
        said += ": " + " in ".join(filter(None, (blocked_by[0], blocked_by[1])))
    return what, said


def draw_panel(job, canvas, y, number, f):
    begin, end = window_of(job, f)
    what, said = captions(job, f, begin, end)
    canvas.badge(MARGIN + 9, y + 9, number)
    canvas.text(MARGIN + 26, y + 14, what, 15.5, "bold")
    canvas.text(MARGIN + 26, y + 32, said, 13, "faint")
    top = y + 54
    bottom = draw_lanes(job, canvas, top, 16, begin, end, f.last["ranks"])
    outline(canvas, job, f, top, 16, begin, end)
    return bottom + 14


def draw_head(job, canvas):
    canvas.text(MARGIN, 30, "%d ranks, %s: who computes, who waits, when data move" % (
        len(job.ranks), "%d fault%s" % (len(job.findings), "" if len(job.findings) == 1 else "s")), 18, "bold")
    x = MARGIN
    for what, label in LEGEND:
        canvas.add('<rect class="%s" x="%.1f" y="43" width="16" height="12" rx="2"/>' % (what, x))
        canvas.text(x + 22, 53.5, label, 13)
        x += 46 + 6.9 * len(label)
    return 74


def draw(job, source):
    canvas = Canvas()
    y = draw_head(job, canvas)
    overview, culprits = y, {r for f in job.findings for r in f.last["ranks"]}
    y = draw_lanes(job, canvas, y, 14, job.t0, job.t1, culprits) + 16
    shown = sorted(job.findings, key=lambda f: ORDER.get(f.last["kind"], 2))[:PANELS_MAX]
    for number, f in enumerate(sorted(shown, key=lambda f: f.begin), 1):
        row = overview + job.ranks.index(f.rank) * 14 + 7 if f.rank in job.ranks else overview
        canvas.badge(LEFT + (f.begin - job.t0) / (job.t1 - job.t0) * PLOT, row, number)
        y = draw_panel(job, canvas, y, number, f)
    canvas.text(MARGIN, y + 4, "A simulated job under the real tracer (%s). Ends of operations are inferred on "
                "the host." % source, 12, "faint")
    height = y + 18
    head = ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" '
            'aria-labelledby="title" font-family="-apple-system, \'Segoe UI\', \'DejaVu Sans\', Roboto, Helvetica, '
            'Arial, sans-serif">\n<title id="title">Timeline of %d ranks: %s</title>\n<style>%s</style>\n'
            '<rect class="paper" x="0.5" y="0.5" width="%d" height="%d" rx="6"/>\n' % (
                WIDTH, height, WIDTH, height, len(job.ranks),
                escape("; ".join(captions(job, f, *window_of(job, f))[0] for f in job.findings)), STYLE,
                WIDTH - 1, height - 1))
    return head + "\n".join(canvas.parts) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description="draw ranks, operations and findings as SVG")
    parser.add_argument("ops", help="JSON lines of `ranktrace replay --ops`")
    parser.add_argument("incidents", help="JSON lines of findings")
    parser.add_argument("out", help="SVG file")
    parser.add_argument("--source", default="make demo", help="of what, for the last line")
    args = parser.parse_args()
    job = Job(read_lines(args.ops), findings_of(read_lines(args.incidents)))
    with open(args.out, "w", encoding="utf-8") as f:
        f.write(draw(job, args.source))


if __name__ == "__main__":
    main()
