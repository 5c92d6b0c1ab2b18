# SPDX-License-Identifier: Apache-2.0
"""F8: D state in a trainer, on a frozen file system and with mmap_lock held."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import faults
import job

job.need_root()
rng, _ = job.seed()
for _ in range(job.TRIALS):
    faults.dstate("dstate", rng)
    faults.dstate("dstate-mm", rng)
