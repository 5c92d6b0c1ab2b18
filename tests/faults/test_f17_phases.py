# SPDX-License-Identifier: Apache-2.0
# runs beside few: silence only where few others take the CPUs
"""F17: evaluation, checkpoint, compile, warm-up, elastic restart, a logging rank 0: silence. Two of the four cases,
drawn; with LONG=1 all."""
import os
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import faults
import job

job.need_root()
rng, _ = job.seed()
def phases():
    rank, step, _ = faults.draw(rng)
    return [[f"phase:what=eval,step={step}", f"phase:what=checkpoint,step={step + 20}"],
            [f"phase:what=compile,rank={rank},step={step},sec=20"], ["phase:what=warmup", "phase:what=rank0log"],
            [f"phase:what=restart,step={step}"]]


order = rng.sample(range(4), 4)
for trial in range(job.TRIALS if "TRIALS" in os.environ else 4 if job.LONG else 2):
    faults.silent(rng, phases()[order[trial % 4]])
