# SPDX-License-Identifier: Apache-2.0
"""F1: one rank stopped by a signal."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import faults
import job

job.need_root()
rng, _ = job.seed()
for _ in range(job.TRIALS):
    faults.hang("stop", "stopped", rng)
