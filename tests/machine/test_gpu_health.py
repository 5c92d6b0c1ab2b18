# SPDX-License-Identifier: Apache-2.0
"""A fault on the GPU of every rank, another one each, by the real sampler and the stand-in for NVML: each is a finding
of its own with the rank it hits, and there is no other."""
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import gpus
import job

CAUSES = {"thermal": "throttled_thermal", "power-brake": "throttled_power_brake", "ecc": "ecc_uncorrected",
          "rows": "rows_pending", "nvlink": "nvlink_errors", "nvlink-down": "nvlink_down", "pcie": "pcie_width"}

job.need_root()
rng, number = job.seed()
gpus.use()
ranks = list(range(len(CAUSES)))
rng.shuffle(ranks)
truth = dict(zip(CAUSES, ranks))
args = ["--ranks", len(ranks), "--steps", 4000, "--step-ms", 200, "--seed", number]
for what, rank in truth.items():
    # the links of a GPU are counted when it is first seen: what is down by then was never there
    args += ["--fault", f"gpu:what={what},rank={rank},step={rng.randrange(20, 30)}"]
j = job.Job(args, ["--tier", "watch"], name="gpu-health")
end = time.monotonic() + 150
while time.monotonic() < end and len(gpus.by_cause(j)) < len(CAUSES):
    time.sleep(0.5)
reported = gpus.by_cause(j)
for what, rank in truth.items():
    job.check(reported.get(CAUSES[what]) == [rank], f"{what} on rank {rank}: reported {reported}; {j.stderr()}")
job.check(len(reported) == len(CAUSES), f"more than was injected: {reported}")
faults = {f["rank"]: f["t_ns"] for f in job.lines(j.fault_log)}
late = {f["cause"]: round((f["t_ns"] - faults[f["ranks"][0]]) / 1e9,
                          1) for f in j.opened() if f["kind"] == "gpu_health"}
print(f"  reported after s: {late}")
job.check(all(f["evidence"]["remedy"] for f in j.opened() if f["kind"] == "gpu_health"), "a finding without a remedy")
job.check(j.stop() == 1, "exit code is not 1")
j.check_replay()
job.result("gpu_health", max(late.values()))
