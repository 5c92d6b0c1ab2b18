# SPDX-License-Identifier: Apache-2.0
"""Phases of steps as ranktrace saw them, held against what the job itself wrote down."""
import collections
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import job

PHASES = ("data_wait", "forward", "backward", "optimizer")


def is_near(a_ns, b_ns):
    return abs(a_ns - b_ns) <= 1_000_000 + b_ns // 100


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


def phases_compared(pairs, phase_ns, is_preempted):
    """(phase, as seen, by the job's own word, whether a preemption excuses a difference, step, the job's) of each:
    phase_ns(step, phase) is the job's own word, is_preempted(step, phase) whether its thread lost its CPU between stamp
    and mark."""
    for truth, s in pairs:
        for phase in PHASES + (("gc",) if s["gc_ns"] is not None else ()):
            # a forward ends where the engine begins, which is a little behind the job's stamp
            excused = is_preempted(truth, phase) or (phase == "forward" and is_preempted(truth, "backward"))
            yield phase, s[phase + "_ns"], phase_ns(truth, phase), excused, s, truth


def phases_compare(pairs, phase_ns, is_preempted):
    """How many phases were compared, and how many differ for a preemption; none may differ for any other reason."""
    n = collections.Counter()
    for phase, seen_ns, own_ns, excused, s, truth in phases_compared(pairs, phase_ns, is_preempted):
        n["compared"] += 1
        if not is_near(seen_ns, own_ns):
            n["preempted"] += 1
            job.check(excused, f"{phase}: {seen_ns / 1e6:.2f} ms, by the job {own_ns / 1e6:.2f} ms: {s}, {truth}")
    return n
