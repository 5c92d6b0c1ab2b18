# SPDX-License-Identifier: Apache-2.0
# runs alone: 64 ranks leave nothing of the CPUs to others
"""Known workload of 64 ranks, seen whole by one tracer."""
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import known

job.need_root()
rng, number = job.seed()
begin = time.monotonic()
j, truth, seen = known.whole(64, "tp=4,dp=4,pp=4", rng.randrange(1 << 30), "--no-dataloader", "--layers", 2,
                             "--step-ms", 200, steps=8, timeout=120, name="ranks64")
job.check(len({o["pid"] for o in seen}) == 64 and len({o["comm"] for o in seen}) == 1 + 16 + 16 + 16,
          "not 64 processes on 49 communicators")
print(f"took {time.monotonic() - begin:.0f} s")
