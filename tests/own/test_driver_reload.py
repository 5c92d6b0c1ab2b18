# SPDX-License-Identifier: Apache-2.0
"""The NVIDIA driver is unloaded under a session, its library taken away and put back, and the driver loaded again:
nothing is found about it, that it went and came is said once each, and a GPU that fails afterwards is named."""
import os
import shutil
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import gpus
import job

FAULT_STEP = 250  # of 0.1 s: the driver is back by then


def wait_said(j, text, timeout=30):
    end = time.monotonic() + timeout
    while text not in j.stderr():
        job.check(j.process.poll() is None and time.monotonic() < end, f"'{text}' is not said: {j.stderr()}")
        time.sleep(0.1)


def main():
    job.need_root()
    rng, number = job.seed()
    where = os.path.dirname(gpus.use())
    library, away = f"{where}/libnvidia-ml.so.1", f"{where}/away"
    shutil.copy(os.environ["RANKTRACE_NVML"], library)
    os.environ.update(RANKTRACE_NVML=library, SIM_GPU_AWAY=away)
    rank = rng.randrange(4)
    j = job.Job(["--ranks", 4, "--steps", 100000, "--step-ms", 100, "--seed", number, "--fault",
                 f"gpu:what=thermal,rank={rank},step={FAULT_STEP}"], ["--tier", "watch"], name="reload")
    j.wait_begun(3 + rng.uniform(0, 2))  # GPUs are seen
    open(away, "w").close()
    wait_said(j, "the NVIDIA driver is away")
    os.rename(library, f"{library}.old")
    time.sleep(rng.uniform(1, 3))
    os.rename(f"{library}.old", library)
    time.sleep(rng.uniform(0, 1))
    os.remove(away)
    wait_said(j, "the NVIDIA driver is back")
    job.check(not job.lines(j.fault_log), "the fault came before: this test would prove nothing")
    job.check(not j.roots(), f"found while the driver was away: {j.roots()}")
    f = j.wait_finding(60, kind="gpu_health", phase="open")
    job.check(f and f["ranks"] == [rank] and f["cause"] == "throttled_thermal",
              f"the GPU of rank {rank} is not named: {j.findings}\n{j.stderr()}")
    j.stop()
    for said in ("the NVIDIA driver is away", "the NVIDIA driver is back"):
        job.check(j.stderr().count(said) == 1, f"'{said}' is said {j.stderr().count(said)} times: {j.stderr()}")
    others = [f for f in j.roots() if f["ranks"] != [rank]]
    job.check(not others, f"also: {others}")
    j.check_replay()
    print(f"  the driver went and came back; rank {rank} named afterwards, nobody else")


main()
