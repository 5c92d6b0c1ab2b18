# SPDX-License-Identifier: Apache-2.0
"""F6: a rank that does not come, in nested groups: the root is named, not the first group that waits."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import faults
import job

job.need_root()
rng, _ = job.seed()
for _ in range(job.TRIALS):
    faults.hang("hang", "missing_enter", rng, ["--layout", "tp=2,dp=2,pp=2"])
