# SPDX-License-Identifier: Apache-2.0
"""F7: a Send, or a Recv, that one side leaves out."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import faults
import job

job.need_root()
rng, _ = job.seed()
for _ in range(job.TRIALS):
    faults.p2p(rng, "send")
    faults.p2p(rng, "recv")
