# SPDX-License-Identifier: Apache-2.0
"""F4: two communicators in opposite order: with the host blocked between the two operations, or run ahead past both."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import faults
import job

job.need_root()
rng, _ = job.seed()
for _ in range(job.TRIALS):
    faults.deadlock(rng, "blocked", ["--layout", "tp=2,dp=4"])
    faults.deadlock(rng, "ahead", ["--layout", rng.choice(("dp=8", "tp=2,dp=2,pp=2"))])
