# SPDX-License-Identifier: Apache-2.0
"""ranktrace watch on a job with evaluation, checkpoint, a compiling rank, a warm-up, a rank that logs more: no rank is
accused (observations allowed). One kind drawn in make test, all of them with LONG=1."""
import os
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import faults
import job
from test_watch import quiet

job.need_root()
rng, _ = job.seed()
rank, step, _ = faults.draw(rng)
phases = [[f"phase:what=eval,step={step}", f"phase:what=checkpoint,step={step + 20}"],
          [f"phase:what=compile,rank={rank},step={step + 20},sec=8"], ["phase:what=warmup", "phase:what=rank0log"]]
for planned in phases if os.environ.get("LONG") else rng.sample(phases, 1):
    quiet(rng, planned, 20)
