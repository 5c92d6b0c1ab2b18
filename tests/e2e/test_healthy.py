# SPDX-License-Identifier: Apache-2.0
# runs alone: silence only where nobody else takes the CPUs
"""A job without faults: no finding, five times in a row."""
import faults
import job

job.need_root()
rng, _ = job.seed()
for _ in range(5):
    faults.silent(rng, [], steps=100)
