# SPDX-License-Identifier: Apache-2.0
"""F16: garbage collection on random ranks, a heavier last stage, random sequence lengths: nobody is named."""
import host_faults
import job

job.need_root()
host_faults.need("imbalance")
rng, _ = job.seed()
for _ in range(job.TRIALS):
    host_faults.uneven(rng, "gc:rate=0.1", ["--step-ms", 120])
    host_faults.uneven(rng, "imbalance:what=stage,percent=30", ["--step-ms", 120, "--layout", "dp=2,pp=4"])
    host_faults.uneven(rng, "imbalance:what=sequence,percent=30", ["--step-ms", 120])
