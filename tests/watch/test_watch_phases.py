# SPDX-License-Identifier: Apache-2.0
# runs beside few: a job that is healthy is not starved by other tests
"""Single phases of a job's life that watch took for hangs, in tiers watch and record: communicators that are aborted
and made anew, pipelines with steps of many seconds, a long evaluation on rank 0. One is drawn in make test; LONG=1:
all, in each tier."""
import os
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import lives

LONG = bool(os.environ.get("LONG"))


def renewed(command, seed):
    """Aborted while ranks stand unevenly, or one of them is started anew: what was before is forgotten."""
    _, seen = lives.live(command, 60, seed, "abort,elastic", scale=0.5, step_ms=20)
    job.check(seen["abort"] + seen["elastic"] >= 2, f"too little happened: {seen}")


def long_steps(command, seed):
    """Every step takes 12 s, and the first stages of the pipeline come to the loss 2 s after the last ones."""
    lives.live(command, 100 if LONG else 65, seed, "experts", scale=0.01, step_ms=12000)


def evaluation(command, seed):
    """Rank 0 works alone, three times: 150 s each at full scale."""
    lives.live(command, 900 if LONG else 60, seed, "evaluation", scale=1 if LONG else 0.1, step_ms=20)


job.need_root()
rng, _ = job.seed()
cases = [(case, command) for case in (renewed, long_steps, evaluation) for command in ("watch", "record")]
for case, command in cases if LONG else rng.sample(cases, 1):
    print(f"{case.__name__} under {command}", flush=True)
    case(command, rng.randrange(1 << 30))
