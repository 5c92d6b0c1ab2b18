# SPDX-License-Identifier: Apache-2.0
# runs beside few: names no rank only where few others take the CPUs
"""F16: garbage collection on random ranks, a heavier last stage, random sequence lengths: no rank is named."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import host_faults
import job

job.need_root()
host_faults.need("imbalance")
rng, _ = job.seed()
uneven = [("gc:rate=0.1", []), ("imbalance:what=stage,percent=30", ["--layout", "dp=2,pp=4"]),
          ("imbalance:what=sequence,percent=30", [])]
rng.shuffle(uneven)
for trial in range(job.TRIALS):
    fault, extra = uneven[trial % 3]
    host_faults.uneven(rng, fault, ["--step-ms", 120, *extra])
