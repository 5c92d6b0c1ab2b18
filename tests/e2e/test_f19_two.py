# SPDX-License-Identifier: Apache-2.0
"""F19: two faults at once, on random ranks: a slow one and another of a random kind; LONG=1 runs every kind."""
import os

import host_faults
import job

job.need_root()
rng, _ = job.seed()
kinds = sorted(host_faults.SECOND)
for kind in kinds if os.environ.get("LONG") else rng.sample(kinds, min(job.TRIALS, len(kinds))):
    host_faults.two(rng, kind)
