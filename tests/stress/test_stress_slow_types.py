# SPDX-License-Identifier: Apache-2.0
"""GPUs whose fp64 is slow, as a T4's or an L40S's, are healthy: a product takes seconds, and nothing is called stalled;
`stress all --quick` ends in time with fp64 where its window holds it, else leaves it out and says so."""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, f"{here}/../aid")
import job
from stress import SMALL, Gpus, expect, stress

T4_NS, L40S_NS = 4400000000, 785000000  # 8192^3 in fp64 at 0.25 and 1.4 TFLOP/s


def quick(ns, only):
    return stress(Gpus(1, SIM_GEMM_NS=ns), "all", "--quick", *SMALL, "--only", only)


status, by, err = Gpus(2, SIM_GEMM_NS=T4_NS).lines("--only", "fp64", "--time", "2")
rates = by.get("rate", [])
print(f"4.4 s a product: exit {status}, {by.get('fault', [])}, {by['end'][0]['elapsed_s']:.1f} s")
job.check(status == 0 and not by.get("fault") and len(rates) == 2, f"{by} {err}")
job.check(all(r["measured"] and r["checked"] >= 2 for r in rates), f"{rates}")  # one of each way, at least
p = quick(L40S_NS, "fp64,memory")
expect("0.8 s a product, quick", p, 0, "fp64", "memory")
job.check("left out, as" not in p.stdout, p.stdout)
expect("4.4 s a product, quick", quick(T4_NS, "fp64,memory"), 0, "fp64: left out, as a product of 64 takes 4.4 s",
       "stress gpu --only fp64")
expect("nothing else asked for", quick(T4_NS, "fp64"), 3, "nothing of what --only asks for", "--quick")
