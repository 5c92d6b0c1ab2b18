# SPDX-License-Identifier: Apache-2.0
"""F17: evaluation, checkpoint, compile, warm-up, elastic restart, a logging rank 0: silence."""
import faults
import job

job.need_root()
rng, _ = job.seed()
for _ in range(job.TRIALS):
    rank, step, _ = faults.draw(rng)
    faults.silent(rng, [f"phase:what=eval,step={step}", f"phase:what=checkpoint,step={step + 20}"])
    faults.silent(rng, [f"phase:what=compile,rank={rank},step={step},sec=20"])
    faults.silent(rng, ["phase:what=warmup", "phase:what=rank0log"])
    faults.silent(rng, [f"phase:what=restart,step={step}"])
