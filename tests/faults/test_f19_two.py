# SPDX-License-Identifier: Apache-2.0
# runs alone: judges the speed of ranks
"""F19: two faults at once, on random ranks: a slow one and another of a random kind; LONG=1 runs every kind."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import host_faults
import job

job.need_root()
rng, _ = job.seed()
kinds = sorted(host_faults.SECOND)
for kind in kinds if job.LONG and job.TRIALS > 1 else rng.sample(kinds, min(job.TRIALS, len(kinds))):
    host_faults.two(rng, kind)
