# SPDX-License-Identifier: Apache-2.0
"""The kernels on a rank's GPUs, by a core dump that CUDA writes when asked: named where the rank was started for it and
goes on afterwards; refused where a dump would end it or hold all memory; said what to set where it was not started so.
The rank is a process that does what CUDA does (gpu_core_process.py)."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(1, sys.path[0] + "/../aid")
import job

KERNEL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
MEMORY = "skip_global_memory,skip_shared_memory"

job.need_root()
folder = tempfile.mkdtemp(prefix="ranktrace-gpu-core-")
job.dirs.append(folder)


def rank(number, flags, how="", dumps=True):
    env = {**os.environ, "RANK": str(number), "WORLD_SIZE": "8"}
    if dumps:
        env.update({"CUDA_ENABLE_USER_TRIGGERED_COREDUMP": "1", "CUDA_COREDUMP_PIPE": f"{folder}/pipe.%h.%p",
                    "CUDA_COREDUMP_FILE": f"{folder}/core.%t.%h.%p", "CUDA_COREDUMP_GENERATION_FLAGS": flags})
    argv = [sys.executable, f"{sys.path[0]}/gpu_core_process.py", KERNEL, how] if dumps else ["sleep", "600"]
    process = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True)
    if dumps:
        job.check(process.stdout.readline() == "ready\n", "the stand-in did not start")
    return process


def autopsy(processes, *args):
    pids = [f"--pid={p.pid}" for p in processes]
    done = subprocess.run([job.RANKTRACE, "autopsy", "--timeout=1", "--stacks=0", *pids, *args], capture_output=True,
                          text=True, timeout=120)
    job.check(done.returncode in (0, 1), f"{done.returncode} {done.stderr}")
    for p in processes:
        job.check(p.poll() is None, f"a rank ended: {done.stderr}")
    return done.stderr


def line_of(p, number, what):
    return f"rank {number} (pid {p.pid}): {what}"


ranks = [rank(0, f"skip_abort,{MEMORY}"), rank(1, f"{MEMORY},skip_abort", "slow"), rank(2, MEMORY),
         rank(3, "skip_abort"), rank(4, "", dumps=False)]
try:
    said = autopsy(ranks, "--gpu-core")
    for n in (0, 1):
        job.check(line_of(ranks[n], n, f"kernel {KERNEL}, 24 x 1 x 1 blocks of 544 threads, on CUDA device 0") in said,
                  f"rank {n}: {said}")
    job.check("of 1 of 5 ranks are not asked for: a core dump would end the rank" in said, said)
    job.check("of 1 of 5 ranks are not asked for: the dump would hold all" in said, said)
    job.check("of 1 of 5 ranks cannot be named" in said and "CUDA_ENABLE_USER_TRIGGERED_COREDUMP=1" in said and
              "skip_abort," in said, said)
    job.check(len([f for f in os.listdir(folder) if f.startswith("core.")]) == 2, os.listdir(folder))
    job.check("GPU" not in autopsy(ranks), "a rank was asked, or offered, without need")
    late = rank(5, f"skip_abort,{MEMORY}", "never")
    ranks.append(late)
    said = autopsy([late], "--gpu-core=2")
    job.check(line_of(late, 5, "its core dump did not come in time") in said, said)
finally:
    for p in ranks:
        p.kill()
        p.wait()
