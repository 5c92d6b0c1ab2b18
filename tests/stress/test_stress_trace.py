# SPDX-License-Identifier: Apache-2.0
"""`ranktrace stress nccl --trace`: the tracer beside the test has every operation that the test issued, with its bytes,
from the first on; and says so where a recording is not possible."""
import json
import os
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [f"{here}/../aid", f"{here}/../replay"]
import job
from stress import Gpus, expect, older_nccl, stress
from test_stress_schema import lines_check

CASES = ["--bytes", "64K", "--iterations", "4", "--types", "fp32,bf16"]


OPERATIONS = 3 * 2 * 13  # 3 ranks, 2 types: 5 + 4 and 4 for p99, out of place; in place the check needs one more
PART = 21840  # of 64 KiB by 3, whole 16 bytes


def recorded(has_alltoall=True):
    g = Gpus(3, **{} if has_alltoall else older_nccl())
    path = f"{g.dir}/run.pftrace"
    p = stress(g, "nccl", *CASES, "--json", "--trace", path)
    lines = lines_check("traced", p.stdout)
    rows = {x["measure"]: x for x in lines if x["type"] == "traced"}
    print({name: (x["recorded"], x["issued"]) for name, x in rows.items()})
    job.check(p.returncode == 0, f"exit {p.returncode}: {p.stderr}")
    want = dict.fromkeys(("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce"), OPERATIONS + 3 * 2 * 14)
    sent = (OPERATIONS, OPERATIONS << 16)
    if has_alltoall:
        want["AlltoAll"] = OPERATIONS
        job.check(rows["AlltoAll"]["bytes_issued"] == OPERATIONS * PART, f"{rows}")
    else:
        sent = (4 * OPERATIONS, OPERATIONS * ((1 << 16) + 3 * PART))
    job.check({n: x["issued"] for n, x in rows.items() if n not in ("Send", "Recv")} == want, f"{rows}")
    for name in ("Send", "Recv"):
        job.check((rows[name]["issued"], rows[name]["bytes_issued"]) == sent, f"{rows}")
    job.check(all(x["recorded"] == x["issued"] and x["bytes_recorded"] == x["bytes_issued"] > 0 and not x["failed"]
                  for x in rows.values()), f"{rows}")
    job.check(os.path.getsize(path) > 50000 and os.path.exists(f"{g.dir}/run.rtr"), "no timeline")
    job.check(not os.path.exists(f"{g.dir}/run.issued"), "a file was left")


def ranks_without_environment():
    """Its ranks have no RANK: operations and tracks have the number that NCCL gave them."""
    g = Gpus(3)
    path = f"{g.dir}/run.pftrace"
    p = stress(g, "nccl", *CASES, "--collectives", "all_reduce", "--trace", path)
    job.check(p.returncode == 0, f"exit {p.returncode}: {p.stderr}")
    out = subprocess.run([job.RANKTRACE, "replay", "-q", "--ops", f"{g.dir}/run.rtr"], capture_output=True, text=True)
    ops = [json.loads(line) for line in out.stdout.splitlines()]
    job.check({o["rank"] for o in ops} == {0, 1, 2} and all(o["rank"] == o["comm_rank"] for o in ops),
              f"{out.stderr} {ops[:3]}")
    raw = f"{g.dir}/raw"
    subprocess.run([sys.executable, f"{here}/../../tools/check_pftrace.py", "--inflate", raw, path], check=True)
    with open(raw, "rb") as f:
        names = f.read()
    job.check(all(f"rank {r} · ".encode() in names for r in range(3)), "no track of a rank")


def recorded_of_transfers():
    """A library without ncclAlltoAll: an alltoall is a Send and a Recv for each rank."""
    recorded(has_alltoall=False)


def failed():
    """The test's own verdict stays."""
    g = Gpus(3, SIM_NCCL_WRONG="1:own:3")
    p = stress(g, "nccl", *CASES, "--collectives", "all_reduce", "--trace", f"{g.dir}/run.pftrace")
    expect("a wrong element", p, 1, "FAULT GPU 1 of", "recorded: AllReduce")


def not_possible():
    g = Gpus(2)
    expect("another suffix", stress(g, "nccl", *CASES, "--trace", f"{g.dir}/x.rtr"), 2, "does not end in .pftrace")
    expect("of nccl alone", stress(g, "gpu", "--trace", f"{g.dir}/x.pftrace"), 2, "--trace is an option of stress nccl")
    expect("of nccl alone", stress(g, "all", "--quick", "--trace", f"{g.dir}/x.pftrace"), 2, "--trace is an option of")
    os.chmod(g.dir, 0o777)
    p = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", os.path.abspath(job.RANKTRACE),
                        "stress", "nccl", *CASES, "--trace", f"{g.dir}/x.pftrace"], capture_output=True, text=True,
                       timeout=60, env=g.env)
    job.check(p.returncode != 0 and "needs root" in p.stderr and "passed" not in p.stdout, f"{p}")


job.need_root()
for case in (recorded, ranks_without_environment, recorded_of_transfers, failed, not_possible):
    case()
