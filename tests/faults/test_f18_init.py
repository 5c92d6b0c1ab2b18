# SPDX-License-Identifier: Apache-2.0
"""F18: a communicator that is created without one of its ranks: at the start of the job, by an id, by a split."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import faults
import job

job.need_root()
rng, _ = job.seed()
for _ in range(job.TRIALS):
    faults.init(rng, "start", "sleep")
    faults.init(rng, rng.choice(("new", "split")), rng.choice(("sleep", "stop", "dead")))
