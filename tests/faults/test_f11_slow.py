# SPDX-License-Identifier: Apache-2.0
# runs beside few: judges the speed of ranks
"""F11: the compute of one rank is slower, by 10, 20 or 50 %."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import faults
import job

job.need_root()
rng, _ = job.seed()
percents = rng.sample((10, 20, 50), 3)
for trial in range(job.TRIALS):
    faults.slow(rng, percents[trial % 3])
