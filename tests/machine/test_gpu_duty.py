# SPDX-License-Identifier: Apache-2.0
"""No probe: the GPU of one rank becomes slower, and the activity that NVML shows names it; before, nobody. LONG=1: the
issue's 10 s, three draws and 10 % as well."""
import os
import subprocess
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import gpus
import job

LONG = bool(os.environ.get("LONG"))

job.need_root()
rng, _ = job.seed()
gpus.use()
for trial in range(3 if LONG else 1):
    ranks = rng.choice((2, 3, 4))
    rank, percent = rng.randrange(ranks), rng.choice((10, 20, 50) if LONG else (20, 50))
    # a hundred steps and more before: the past that the present is compared with
    j = job.Job(["--ranks", ranks, "--steps", 4000, "--step-ms", 100, "--seed", rng.randrange(1 << 30),
                 "--fault", f"slow:rank={rank},step={rng.randrange(130, 150)},percent={percent}"], ["--tier", "watch"],
                name="gpu-duty")
    truth = j.wait_fault(90, "slow")
    job.check(truth, f"the fault did not strike: {j.stderr()}")
    early = [f for f in j.opened() if f["kind"] == "straggler"]
    job.check(not early, f"named before the fault: {early}")
    f = j.wait_finding(60, kind="straggler", phase="open")
    job.check(f, f"rank {rank} of {ranks} slower by {percent} %: not named; {j.findings}\n{j.stderr()}")
    job.check(f["ranks"] == [rank] and f["cause"] == "gpu",
              f"named {f['ranks']} ({f['cause']}) instead of [{rank}]: {f}")
    late = (f["t_ns"] - truth["t_ns"]) / 1e9
    e = f["evidence"]
    print(f"  rank {rank} of {ranks} slower by {percent} %: named after {late:.1f} s; tensor {e['tensor_percent']:.1f} "
          f"%, "
          f"peers {e['tensor_percent_peers']:.1f} %")
    job.check(not LONG or late <= 10, f"named after {late:.1f} s, limit 10 s")
    job.check(j.stop() == 1, "exit code is not 1")
    job.check(all(f["ranks"] == [rank] for f in j.opened() if f["kind"] == "straggler"), f"others named: {j.opened()}")
    j.check_replay()
    flat = f"{j.dir}/flat"
    subprocess.run([sys.executable, "-B", "tools/check_pftrace.py", "--inflate", flat, j.trace], check=True,
                   stdout=subprocess.DEVNULL)
    with open(flat, "rb") as drawn:
        text = drawn.read()
    for name in (f"GPU {rank} · rank {rank}", "tensor activity %", "power W"):
        job.check(name.encode() in text, f"the timeline has no '{name}'")
    job.result(f"gpu_duty {percent}%", late)
