#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# timeline_svg.py - draws the README's picture: one lane per rank, operations coloured by communicator, the findings as
# bands, the whole run on top and a close look at each finding below.
#   ranktrace replay demo.rtr --ops > ops.jsonl; ranktrace replay demo.rtr --json > incidents.jsonl
#   tools/timeline_svg.py ops.jsonl incidents.jsonl out.svg [--window begin,end]      (seconds of the axis)
import argparse
import bisect
import json
import math
import sys
from collections import defaultdict
from xml.sax.saxutils import escape

WIDTH, MARGIN, LEFT = 1000, 20, 62
PALETTE = ["#4477AA", "#66AABB", "#B08D3C", "#7B6FB0", "#5F9E6E", "#A9768F", "#7A8793", "#3F8F8B"]
INK, FAINT, GRID, PAPER, LANE = "#1f2933", "#66727f", "#e3e8ee", "#ffffff", "#f6f8fa"
BANDS = {"hang": "#D6273B", "d_state": "#8E3BB8", "straggler": "#E8871E", "mismatch": "#C2185B", "stopped": "#8D5524"}
SILENT = {"observation", "lost_events", "unobserved"}
MAX_ZOOMS = 3


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

    def colour(self):
        return BANDS.get(self.last["kind"], "#5b6b7b")

    def title(self):
        return " ".join(filter(None, (self.last["kind"].replace("_", " ").upper(), self.last["class"])))

    def details(self):
        line, parts = self.last, []
        ranks = [r for r in line["ranks"] if r >= 0]
        if ranks:
            parts.append("rank%s %s" % ("s" if len(ranks) > 1 else "", ", ".join(map(str, ranks))))
        if line["op"]:
            parts.append("%s #%s" % (line["op"], line["seq"]))
        if line["cause"] and line["cause"] != line["class"]:
            parts.append(line["cause"].replace("_", " "))
        return " · ".join(parts)


def findings_of(lines):
    """In order of time; consequences of others and those that are no alarm are left out."""
    found = {}
    for line in lines:
        if line["kind"] in SILENT or line.get("caused_by"):
            found.pop(line["id"], None)
        elif line["id"] in found:
            found[line["id"]].follow(line)
        else:
            found[line["id"]] = Finding(line)
    return sorted(found.values(), key=lambda f: f.begin)


class Job:
    def __init__(self, ops, lines):
        ops = [o for o in ops if o["rank"] is not None]
        if not ops:
            sys.exit("no operation of a known rank in the input")
        self.findings = findings_of(lines)
        self.t0 = min(o["t_ns"] for o in ops)
        ends = [o["end_ns"] or o["t_ns"] for o in ops] + [f.end or f.opened for f in self.findings]
        self.t1 = max(ends) + max(int(0.01 * (max(ends) - self.t0)), 200000000)
        self.ranks = sorted({o["rank"] for o in ops})
        self.ops = defaultdict(list)
        for o in sorted(ops, key=lambda o: o["t_ns"]):
            self.ops[o["rank"]].append((o["t_ns"], o["end_ns"] or self.t1, o["comm"] or "?", o["end_ns"] is None))
        self.families = self.group_comms()

    def group_comms(self):
        """{comm: (colour, row, label)}. Few communicators have a colour each; many share it with those of their kind:
        the same number of ranks and the same place in the order in which a rank meets them."""
        members, place = defaultdict(set), {}
        for rank in self.ranks:
            met = []
            for _, _, comm, _ in self.ops[rank]:
                members[comm].add(rank)
                if comm not in met:
                    met.append(comm)
            for i, comm in enumerate(met):
                place[comm] = min(i, place.get(comm, i))
        kinds = defaultdict(list)
        for comm in sorted(members, key=lambda c: (-len(members[c]), place[c], c)):
            kinds[comm if len(members) <= 4 else (len(members[comm]), place[comm])].append(comm)
        out = {}
        for i, comms in enumerate(kinds.values()):
            size = len(members[comms[0]])
            name = "comm %s…" % comms[0][:6] if len(comms) == 1 else "%d communicators" % len(comms)
            label = "%s of %d ranks%s" % (name, size, " each" if len(comms) > 1 else "")
            for comm in comms:
                out[comm] = (PALETTE[i % len(PALETTE)], i, label)
        return out

    def seconds(self, ns):
        return (ns - self.t0) / 1e9

    def ns(self, seconds):
        return self.t0 + int(seconds * 1e9)

    def zoom(self, f):
        """A window in which the fault can be seen: its begin and its discovery, or some iterations of a straggler."""
        if f.last["kind"] == "straggler":
            rank = next((r for r in f.last["ranks"] if r in self.ops), self.ranks[0])
            calls = [o[0] for o in self.ops[rank]]
            at = bisect.bisect(calls, f.opened)
            span = f.opened - calls[max(0, at - 48)] if at else 10**9
            span = min(max(span, 200000000), 4000000000)
            return max(f.opened - span, self.t0), min(f.opened + span // 12, self.t1)
        end = min(f.end or f.opened, f.opened + 4000000000)
        pad = max((end - f.begin) // 5, 200000000)
        return max(f.begin - pad, self.t0), min(end + pad, self.t1)


class Canvas:
    def __init__(self):
        self.parts = []

    def add(self, text):
        self.parts.append(text)

    def rect(self, x, y, w, h, fill, extra=""):
        self.add('<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"%s/>' % (x, y, w, h, fill, extra))

    def text(self, x, y, text, size=11, fill=INK, extra=""):
        self.add('<text x="%.1f" y="%.1f" font-size="%g" fill="%s"%s>%s</text>' % (
            x, y, size, fill, extra, escape(text)))

    def line(self, x1, y1, x2, y2, stroke, extra=""):
        self.add('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"%s/>' % (x1, y1, x2, y2, stroke, extra))

    def badge(self, x, y, number, colour):
        self.add('<circle cx="%.1f" cy="%.1f" r="8" fill="%s"/>' % (x, y, colour))
        self.text(x, y + 3.8, str(number), 11, "#fff", ' text-anchor="middle" font-weight="700"')


def tick_step(span_s, width):
    rough = span_s / max(width / 75, 2)
    power = 10 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)


def bars_of(ops, begin, end, scale):
    """Operations of one rank in a window as bars in pixels; those too close to tell apart are joined."""
    rows = {}
    for t, e, comm, open_ended in ops:
        if e < begin or t > end:
            continue
        x0, x1 = scale(max(t, begin)), scale(min(e, end))
        last = rows.setdefault(comm, [])
        if last and x0 - last[-1][1] < 0.4 and open_ended == last[-1][2]:
            last[-1][1] = max(last[-1][1], x1)
        else:
            last.append([x0, x1, open_ended])
    return rows


class Panel:
    """Lanes of all ranks in one window of time."""

    def __init__(self, job, canvas, x, y, width, lane_h, window):
        self.job, self.canvas, self.x, self.y, self.width, self.lane_h = job, canvas, x, y, width, lane_h
        self.begin, self.end = window
        self.height = lane_h * len(job.ranks)

    def scale(self, ns):
        return self.x + (ns - self.begin) / (self.end - self.begin) * self.width

    def clip(self, ns):
        return min(max(ns, self.begin), self.end)

    def lane_y(self, rank):
        return self.y + self.job.ranks.index(rank) * self.lane_h

    def axis(self):
        span = (self.end - self.begin) / 1e9
        step = tick_step(span, self.width)
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        at = math.ceil(self.job.seconds(self.begin) / step - 1e-9) * step
        while self.job.ns(at) <= self.end:
            x = self.scale(self.job.ns(at))
            self.canvas.line(x, self.y, x, self.y + self.height + 3, GRID)
            self.canvas.text(x, self.y + self.height + 15, "%.*f s" % (digits, at), 10, FAINT, ' text-anchor="middle"')
            at += step

    def lanes(self, labels, culprits):
        for i, rank in enumerate(self.job.ranks):
            y = self.lane_y(rank)
            self.canvas.rect(self.x, y + 1, self.width, self.lane_h - 2, LANE)
            if labels:
                mark = ' font-weight="700"' if rank in culprits else ""
                self.canvas.text(self.x - 7, y + self.lane_h / 2 + 4, "rank %d" % rank, 11, culprits.get(rank, INK),
                                 ' text-anchor="end"' + mark)

    def bars(self):
        n_rows = max(row for _, row, _ in self.job.families.values()) + 1
        for rank in self.job.ranks:
            y, h = self.lane_y(rank) + 2, (self.lane_h - 4) / n_rows
            for comm, bars in bars_of(self.job.ops[rank], self.begin, self.end, self.scale).items():
                colour, row, _ = self.job.families[comm]
                for x0, x1, open_ended in bars:
                    look = ' opacity="0.35"' if open_ended else ""
                    self.canvas.rect(x0, y + row * h, max(x1 - x0, 0.6), max(h - 0.6, 1), colour, look)

    def bands(self, findings, wash):
        for f in findings:
            end = f.end or self.end
            if f.begin > self.end or end < self.begin:
                continue
            x0, x1 = self.scale(self.clip(f.begin)), self.scale(self.clip(end))
            for rank in (r for r in f.last["ranks"] if r in self.job.ranks):
                y = self.lane_y(rank)
                self.canvas.rect(x0, y + 0.5, max(x1 - x0, 2), self.lane_h - 1, f.colour(),
                                 ' fill-opacity="%g" stroke="%s" stroke-width="1.4"' % (wash, f.colour()))

    def found(self, f):
        """The moment at which the finding was reported, from top to bottom."""
        if self.begin <= f.opened <= self.end:
            x = self.scale(f.opened)
            self.canvas.line(x, self.y - 3, x, self.y + self.height, f.colour(),
                             ' stroke-width="1.3" stroke-dasharray="4 3"')


def draw_overview(job, canvas, y, findings, window):
    panel = Panel(job, canvas, LEFT + MARGIN, y, WIDTH - LEFT - 2 * MARGIN, 17, window)
    culprits = {r: f.colour() for f in findings for r in f.last["ranks"]}
    panel.lanes(True, culprits)
    panel.axis()
    panel.bars()
    panel.bands(findings, 0.22)
    for i, f in enumerate(findings):
        ranks = [r for r in f.last["ranks"] if r in job.ranks]
        if ranks and window[0] <= f.opened <= window[1]:
            canvas.badge(panel.scale(panel.clip(f.begin)) + 3, panel.lane_y(ranks[0]) + 8.5, i + 1, f.colour())
    return y + panel.height + 24


def draw_zooms(job, canvas, y, findings):
    shown = [(i, f) for i, f in enumerate(findings) if f.last["ranks"]]
    urgent = {"hang": 0, "d_state": 1, "straggler": 2, "mismatch": 1}
    shown = sorted(sorted(shown, key=lambda p: urgent.get(p[1].last["kind"], 3))[:MAX_ZOOMS])
    if not shown:
        return y
    gap = 22
    width = (WIDTH - LEFT - 2 * MARGIN - gap * (len(shown) - 1)) / len(shown)
    bottom = y
    for column, (i, f) in enumerate(shown):
        x = MARGIN + LEFT + column * (width + gap)
        canvas.badge(x + 8, y + 12, i + 1, f.colour())
        canvas.text(x + 22, y + 16, f.title(), 13, f.colour(), ' font-weight="700"')
        canvas.text(x + 22, y + 32, f.details(), 11)
        canvas.text(x + 22, y + 47, "reported after %.1f s" % max((f.opened - f.begin) / 1e9, 0), 11, FAINT)
        panel = Panel(job, canvas, x, y + 58, width, 17, job.zoom(f))
        panel.lanes(column == 0, {})
        panel.axis()
        panel.bars()
        panel.bands([f], 0.2)
        panel.found(f)
        bottom = max(bottom, y + 58 + panel.height + 24)
    return bottom


def draw_legend(job, canvas, y, findings):
    x = MARGIN + LEFT
    entries = sorted({(row, colour, label) for colour, row, label in job.families.values()})
    for _, colour, label in entries:
        if x + 24 + 6.2 * len(label) > WIDTH - MARGIN:
            x, y = MARGIN + LEFT, y + 18
        canvas.rect(x, y - 9, 14, 10, colour)
        canvas.text(x + 20, y, label, 11)
        x += 34 + 6.0 * len(label)
    y += 18
    notes = "A bar: from the call to the operation's end, as inferred on the host; pale: no end."
    if findings:
        notes += " A band: the rank the finding names; dashed: the moment it was reported."
    canvas.text(MARGIN + LEFT, y, notes, 11, FAINT)
    return y + 14


def draw(job, window):
    canvas, findings = Canvas(), job.findings
    y = draw_overview(job, canvas, 24, findings, window)
    y = draw_zooms(job, canvas, y + 12, findings)
    height = draw_legend(job, canvas, y + 14, findings)
    head = ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" '
            'font-family="-apple-system, \'Segoe UI\', \'DejaVu Sans\', Roboto, Helvetica, Arial, sans-serif">\n'
            '<title>timeline of %d ranks, drawn by tools/timeline_svg.py</title>\n'
            '<rect width="%d" height="%d" rx="6" fill="%s" stroke="%s"/>\n' % (
                WIDTH, height, WIDTH, height, len(job.ranks), WIDTH, height, PAPER, GRID))
    return head + "\n".join(canvas.parts) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description="draw ranks, operations and findings as SVG")
    parser.add_argument("ops", help="JSON lines of `ranktrace replay --ops`")
    parser.add_argument("incidents", help="JSON lines of findings")
    parser.add_argument("out", help="SVG file")
    parser.add_argument("--window", help="begin,end of the upper picture in seconds from the first operation")
    args = parser.parse_args()
    job = Job(read_lines(args.ops), read_lines(args.incidents))
    window = (job.t0, job.t1)
    if args.window:
        begin, end = (float(s) for s in args.window.split(","))
        window = (job.ns(begin), job.ns(end))
    with open(args.out, "w", encoding="utf-8") as f:
        f.write(draw(job, window))


if __name__ == "__main__":
    main()
