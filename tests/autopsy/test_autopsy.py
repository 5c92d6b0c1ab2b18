# SPDX-License-Identifier: Apache-2.0
# runs alone with LONG=1: it asserts how long the command took
"""ranktrace autopsy, started after the hang: F1, F2, F3, F4, F6, F8 and F18 by NCCL's counters alone; layouts of the
library that no build knew; a healthy job; a library that says nothing of its layout. With LONG=1 20 of each, and the
time counts."""
import os
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import job

LIBS = f"{job.O}/lib/ranktrace/sim"


def other(trial):
    return ("--nccl-lib", f"{LIBS}/layout{1 + trial % 2}/libnccl.so.2")


def nested(rng, trial):
    autopsies.hang("hang:rank={rank},step={step}", "missing_enter", rng, ["--layout", "tp=2,dp=2,pp=2"], exact=False)


CASES = [
    lambda rng, trial: autopsies.hang("stop:rank={rank},step={step}", "stopped", rng),
    lambda rng, trial: autopsies.hang("hang:rank={rank},step={step}", "missing_enter", rng, other(trial)),
    nested,
    lambda rng, trial: autopsies.hang("dstate:rank={rank},step={step},sec=30", "host_blocked", rng),
    lambda rng, trial: autopsies.hang("dstate-mm:rank={rank},step={step},sec=30", "host_blocked", rng, exact=False,
                                      floor=0.6),
    lambda rng, trial: autopsies.deadlock(rng),
    lambda rng, trial: autopsies.init(rng, ("sleep", "stop", "busy")[trial % 3]),
    lambda rng, trial: autopsies.gone(rng, [(), ("--layout", "tp=2,dp=2,pp=2")][trial % 2]),
]

job.need_root()
rng, number = job.seed()
if autopsies.LONG:
    for trial in range(int(os.environ.get("DRAWS", "20"))):
        for case in CASES:
            case(rng, trial)
else:
    for case in rng.sample(CASES, min(job.TRIALS, len(CASES))):
        case(rng, number)
autopsies.healthy(rng, other(number) if number & 4 else ())
autopsies.no_dwarf(rng)
