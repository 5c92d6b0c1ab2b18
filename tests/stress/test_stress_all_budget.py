# SPDX-License-Identifier: Apache-2.0
"""`stress all --quick` on a GPU whose work never ends: what hangs is asked to end, then killed, all is over within
45 s, nothing is left running, and it is no pass."""
import os
import sys
import time

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, f"{here}/../aid")
import job
from stress import QUICK, Gpus, stress


def children_left(mark):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                found += [pid] if mark.encode() in f.read() else []
        except OSError:
            pass
    return found


g = Gpus(1, SIM_GEMM_NS="1000000000000")
begin = time.monotonic()
p = stress(g, *QUICK)
took = time.monotonic() - begin
print(f"exit {p.returncode} after {took:.1f} s\n{p.stdout}{p.stderr}")
job.check(took < 45, f"{took:.1f} s")
job.check(p.returncode == 3 and "gpu        cut" in p.stdout and "before it had a verdict" in p.stderr, p.stdout)
job.check(": passed" not in p.stdout, p.stdout)
left = children_left(g.state)
job.check(not left, f"left running: {left}")
