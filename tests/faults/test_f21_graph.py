# SPDX-License-Identifier: Apache-2.0
"""F21: training with CUDA graphs, where a rank does not launch its graph."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import faults
import job

job.need_root()
rng, _ = job.seed()
for _ in range(job.TRIALS):
    faults.hang("hang", "missing_enter", rng, ["--graph", rng.choice(("step", "layers")), "--layout", "tp=2,dp=4"])
