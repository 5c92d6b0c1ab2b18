# SPDX-License-Identifier: Apache-2.0
"""F2: one rank dies, by SIGKILL, by an error of its own, by a crash; the others are left waiting."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import faults
import job

job.need_root()
rng, _ = job.seed()
for _ in range(job.TRIALS):
    faults.kill(rng, "kill")
    faults.kill(rng, rng.choice(("exit", "segv")))
