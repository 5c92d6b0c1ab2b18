# SPDX-License-Identifier: Apache-2.0
"""Phases of steps as ranktrace saw them, held against what the job itself wrote down."""
import collections
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import job

PHASES = ("data_wait", "forward", "backward", "optimizer")


def is_near(a_ns, b_ns):
    return abs(a_ns - b_ns) <= 1_000_000 + b_ns // 100


def steps_pair(truth, steps, from_start):
    """(step of the job, step as seen), of one rank: those whose begins are nearest. Both have begin_ns. From the second
    step on, or from the first that was seen, none may be missing."""
    def nearest(s):
        return min(range(len(truth)), key=lambda i: abs(s["begin_ns"] - truth[i]["begin_ns"]))

    seen = {nearest(s): s for s in steps}
    missing = [i for i in range(1 if from_start else min(seen, default=0), len(truth) - 1) if i not in seen]
    job.check(seen and not missing, f"no such step was seen: {missing} of {len(truth)}")
    return [(truth[i], s) for i, s in sorted(seen.items())]


def phases_compare(pairs, phase_ns, is_preempted):
    """How many phases were compared, and how many differ for a preemption: phase_ns(step, phase) is the job's own word,
    is_preempted(step, phase) whether its thread lost its CPU between stamp and mark."""
    n = collections.Counter()
    for truth, s in pairs:
        for phase in PHASES:
            n["compared"] += 1
            own_ns = phase_ns(truth, phase)
            if is_near(s[phase + "_ns"], own_ns):
                continue
            # a forward ends where the engine begins, which is a little behind the job's stamp
            excused = is_preempted(truth, phase) or (phase == "forward" and is_preempted(truth, "backward"))
            n["preempted"] += 1
            job.check(excused, f"{phase}: {s[phase + '_ns'] / 1e6:.2f} ms, by the job {own_ns / 1e6:.2f} ms: {s}, "
                      f"{truth}")
    return n
