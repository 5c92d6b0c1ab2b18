# SPDX-License-Identifier: Apache-2.0
# runs alone: silence only where nothing else takes the CPUs
"""A job without faults: silence, twice in a row, with LONG=1 five times."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import faults
import job

job.need_root()
rng, _ = job.seed()
for _ in range(5 if job.LONG else job.TRIALS):
    faults.silent(rng, [], steps=100)
