# SPDX-License-Identifier: Apache-2.0
# runs beside few: silence only where few others take the CPUs
"""A job without faults: silence, twice in a row, with LONG=1 five times."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import faults
import job

job.need_root()
rng, _ = job.seed()
for _ in range(5 if job.LONG else 2):
    faults.silent(rng, [], steps=100)
