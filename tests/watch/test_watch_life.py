# SPDX-License-Identifier: Apache-2.0
# runs beside few: a job that is healthy is not starved by other tests
"""ranktrace watch over the ordinary life of a job: checkpoints, evaluations, slow data workers, compilers, long steps,
aborted communicators, a rank started anew. Nothing is critical, and a call site is warned of once. LONG=1: 30
minutes (make test-life). SECONDS=n: so long."""
import os
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import lives

job.need_root()
rng, _ = job.seed()
LONG = bool(os.environ.get("LONG"))
SECONDS = int(os.environ.get("SECONDS", 1800 if LONG else 75))
found, seen = lives.live("watch", SECONDS, rng.randrange(1 << 30), scale=1 if LONG else 0.3, kinds=6)
job.check(len(seen) >= 6, f"too little happened: {seen}")
