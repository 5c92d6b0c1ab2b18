# SPDX-License-Identifier: Apache-2.0
"""F5: count or type differs on one rank."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import faults
import job

job.need_root()
rng, _ = job.seed()
for _ in range(job.TRIALS):
    faults.mismatch(rng, "count")
    faults.mismatch(rng, "dtype")
