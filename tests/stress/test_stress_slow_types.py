# SPDX-License-Identifier: Apache-2.0
"""GPUs whose fp64 is slow, as a T4's or an L40S's, are healthy: a product takes seconds, and nothing is called stalled;
`stress all --quick` ends in time with fp64 where its window holds it, else leaves it out and says so."""
import os
import signal
import subprocess
import sys
import time

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, f"{here}/../aid")
import job
from stress import SMALL, Gpus, expect, stress

T4_NS, L40S_NS = 4400000000, 785000000  # 8192^3 in fp64 at 0.25 and 1.4 TFLOP/s


def quick(ns, only):
    return stress(Gpus(1, SIM_GEMM_NS=ns), "all", "--quick", *SMALL, "--only", only)


def asked_to_end():
    """While what was slow is measured again: it ends within the grace of `stress all`, with the verdict that it has."""
    g = Gpus(2, SIM_GEMM_NS=L40S_NS, SIM_GPU_SLOW="1:40")
    p = subprocess.Popen(g.argv("--only", "fp64", "--time", "2"), stdout=subprocess.PIPE, text=True, env=g.env)
    while "again, as it is below" not in p.stdout.readline():
        job.check(p.poll() is None, "it was not measured again")
    time.sleep(1.2)
    begin = time.monotonic()
    p.send_signal(signal.SIGINT)
    out = p.communicate(timeout=60)[0]
    took = time.monotonic() - begin
    print(f"asked to end: exit {p.returncode} after {took:.1f} s")
    job.check(p.returncode == 1 and "FAULT GPU 1  slow" in out and "GPU 0  slow" not in out, f"{p.returncode} {out}")
    job.check(took < 2, f"it is killed after 2 s: {took:.1f} s")


asked_to_end()
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
# near the limit one slow GPU, the first or another, is a fault, and no reason to leave the type out for all
for slow in (0, 1):  # a window of 3 s has three products of 0.8 s, and not of 1.1 s
    g = Gpus(2, SIM_GEMM_NS=L40S_NS, SIM_GPU_SLOW=f"{slow}:40")
    p = stress(g, "all", "--quick", *SMALL, "--only", "fp64", "--time", "3")
    expect(f"0.8 s a product, GPU {slow} slow, quick", p, 1, f"GPU {slow}: slow: fp64")
    job.check("left out, as" not in p.stdout, p.stdout)
expect("nothing else asked for", quick(T4_NS, "fp64"), 3, "nothing of what --only asks for", "--quick")
