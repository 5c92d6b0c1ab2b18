# SPDX-License-Identifier: Apache-2.0
"""F3: one rank sleeps, or spins, and never enters an operation; in one communicator (nested groups: F6). At first that
is a stall, later a hang."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import faults
import job

job.need_root()
rng, _ = job.seed()
for _ in range(job.TRIALS):
    faults.hang("hang", "missing_enter", rng)
faults.hang_busy(rng)
faults.stall_is_no_failure(rng)
faults.stall_becomes_hang(rng)
