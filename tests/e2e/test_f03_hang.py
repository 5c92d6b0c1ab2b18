# SPDX-License-Identifier: Apache-2.0
"""F3: one rank sleeps, or spins, and never enters an operation; with one communicator and with nested groups."""
import faults
import job

job.need_root()
rng, _ = job.seed()
for _ in range(job.TRIALS):
    faults.hang("hang", "missing_enter", rng)
    faults.hang("hang", "missing_enter", rng, ["--layout", "tp=2,dp=2,pp=2"])
    faults.hang_busy(rng)
