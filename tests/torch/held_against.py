# SPDX-License-Identifier: Apache-2.0
"""Phases of steps as ranktrace saw them, held against what the job itself wrote down."""
import collections
import os
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import rtr

PHASES = ("data_wait", "forward", "backward", "optimizer")
GONE_NS = 1_500_000_000  # links close one after the other
RECORD_BUDGET, SHED, RANGES = 15, 1, 6
EXCUSED_MOST, UNEXPLAINED_MOST = 0.1, 0.01


def is_near(a_ns, b_ns):
    return abs(a_ns - b_ns) <= 1_000_000 + b_ns // 100


def groups_gone(path):
    """(time, process, group) of each group of probes that the budget took."""
    return [(ts, pid, body[33]) for tracer, kind, pid, _, ts, body in rtr.whole_records(path)
            if (tracer, kind) == (rtr.COLLECTOR, RECORD_BUDGET) and body[32] == SHED]


def steps_match(truth, steps):
    """(step of the job, step as seen), of one rank: those whose begins are nearest. Both have begin_ns. And which ones
    of the job's were not seen, from the first seen on; of the last nobody knows whether it ended."""
    def nearest(s):
        return min(range(len(truth)), key=lambda i: abs(s["begin_ns"] - truth[i]["begin_ns"]))

    seen = {nearest(s): s for s in steps}
    missing = [i for i in range(min(seen, default=0), len(truth) - 1) if i not in seen]
    return [(truth[i], s) for i, s in sorted(seen.items())], missing


def steps_pair(truth, steps, from_start):
    """The pairs alone. From the second step on, or from the first that was seen, none may be missing."""
    pairs, missing = steps_match(truth, steps)
    first = truth.index(pairs[0][0]) if pairs else len(truth)
    late = list(range(1, first)) if from_start else []
    job.check(pairs and not missing + late, f"no such step was seen: {late + missing} of {len(truth)}")
    return pairs


def without_ranges_pair(truth, steps, gone_ns):
    """The same where the ranges of PyTorch went at gone_ns: a training step ends in each of the job's, with its
    optimizer. What shows of that is less than the job's, which has zero_grad(), too."""
    steps = [s for s in steps if s["begin_ns"] > gone_ns]
    truth, pairs = [t for t in truth if t["begin_ns"] > gone_ns + GONE_NS][1:-1], []
    job.check(len(truth) > 10, f"the job made {len(truth)} steps without ranges")
    for t in truth:
        inside = [s for s in steps if t["begin_ns"] < s["end_ns"] <= t["end_ns"]]
        job.check(len(inside) == 1, f"{len(inside)} steps end in one: {t} {inside}")
        s = inside[0]
        job.check(s["phases_by"] == "operators" and s["ends_by"] == "optimizer" and s["data_wait_ns"] is None,
                  f"seen by what is gone: {s}")
        pairs.append((t, s))
    return pairs


def is_visible(step, phase):
    """Without ranges zero_grad() is not the optimizer's, and a forward without a mark may hold the wait for data."""
    if step["phases_by"] == "operators" and (phase == "optimizer" or
                                             (phase == "forward" and step["forward_by"] == "gap")):
        return False
    return step[phase + "_ns"] is not None


def collections_within(pairs, truth):
    """The pairs, with what the job's own collections took within the step as it was seen: without ranges a step begins
    where the optimizer before ended, and not where the job's own does. `truth`: all lines of the rank."""
    spans = [span for t in truth for span in t.get("collections", [])]

    def within(s):
        return sum(max(0, min(end, s["end_ns"]) - max(begin, s["begin_ns"])) for begin, end in spans)

    return [(dict(t, phases=dict(t["phases"], gc=within(s))), s) for t, s in pairs]


def phases_compared(pairs, phase_ns, is_preempted):
    """(phase, as seen, by the job's own word, whether a preemption excuses a difference, step, the job's) of each:
    phase_ns(step, phase) is the job's own word, is_preempted(step, phase) whether its thread lost its CPU between stamp
    and mark."""
    for truth, s in pairs:
        for phase in (p for p in PHASES + ("gc",) if is_visible(s, p)):
            # a border that came late is one of two phases: what the one has more, the other has less
            excused = any(is_preempted(truth, p) for p in beside(phase))
            yield phase, s[phase + "_ns"], phase_ns(truth, phase), excused, s, truth


def beside(phase):
    """It and those before and behind it; a collection is no neighbour."""
    at = PHASES.index(phase) if phase in PHASES else None
    return PHASES[max(at - 1, 0):at + 2] if at is not None else (phase,)


def stolen_ms():
    """What the host of this virtual machine took from its CPUs so far, in its kernel's steps of 10 ms."""
    with open("/proc/stat") as f:
        return int(f.readline().split()[8]) * 1000 / os.sysconf("SC_CLK_TCK")


class Comparison:
    """Phases of one run, of all ranks. One in ten may differ where its thread lost its CPU between stamp and mark. What
    the host takes in a wait of the thread shows only in sum: one in a hundred may differ by it, all together by no more
    than the host took meanwhile. No other may differ."""

    def __init__(self, name):
        self.name, self.n, self.begin_ms, self.unexplained = name, collections.Counter(), stolen_ms(), []

    def add(self, pairs, phase_ns, is_preempted):
        for phase, seen_ns, own_ns, excused, s, truth in phases_compared(pairs, phase_ns, is_preempted):
            self.n["compared"] += 1
            if not is_near(seen_ns, own_ns):
                self.n["preempted" if excused else "unexplained"] += 1
                if not excused:
                    ms = (seen_ns - own_ns) / 1e6
                    self.unexplained.append((abs(ms), f"{phase}: {ms:+.2f} ms to the job's own: {s}, {truth}"))

    def check(self):
        taken_ms, differ_ms = stolen_ms() - self.begin_ms, sum(ms for ms, _ in self.unexplained)
        said = "\n".join(text for _, text in self.unexplained)
        print(f"{self.name}: {dict(self.n)}" + (f", {differ_ms:.1f} ms of {taken_ms:.0f} that the host took" if said
                                                else ""), flush=True)
        job.check(self.n["compared"], f"{self.name}: no phase was compared")
        job.check(self.n["preempted"] <= EXCUSED_MOST * self.n["compared"], f"too many differ: {self.n}")
        job.check(differ_ms <= taken_ms and len(self.unexplained) <= max(1, UNEXPLAINED_MOST * self.n["compared"]),
                  f"{self.name}: the host took {taken_ms:.0f} ms, and phases differ:\n{said}")
