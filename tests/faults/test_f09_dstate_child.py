# SPDX-License-Identifier: Apache-2.0
"""F9: D state in a dataloader child only, with a rank that waits for it and one that has batches in memory."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import host_faults
import job

job.need_root()
rng, _ = job.seed()
for _ in range(job.TRIALS):
    host_faults.blocked_child(rng, wait=1)
    host_faults.blocked_child(rng, wait=0)
