# SPDX-License-Identifier: Apache-2.0
"""F11: the compute of one rank is slower."""
import faults
import job

job.need_root()
rng, _ = job.seed()
for _ in range(job.TRIALS):
    for percent in (10, 20, 50):
        faults.slow(rng, percent)
