# SPDX-License-Identifier: Apache-2.0
"""On a machine with NVIDIA GPUs, nvcc and NCCL: NVIDIA nccl-tests, built from the source in NCCL_TESTS, under `record`.
Every all-reduce of each rank is counted against NCCL's own log (NCCL_DEBUG_SUBSYS=COLL), and each operation has its
rank and GPU; the reported bus bandwidth traced beside untraced. Shapes: one process for all GPUs (-g), a thread for
each (-t); with one GPU there is one shape. Prints one JSON line a shape."""
import collections
import glob
import json
import os
import re
import statistics
import subprocess
import sys

from gpujob import GPUS, OUT, RANKTRACE, say

SOURCE = os.environ.get("NCCL_TESTS", "build/nccl-tests")
SIZES = ("-b", "8", "-e", "64M", "-f", "8", "-n", "20", "-w", "5")


def nccl_home():
    """A folder with include/nccl.h and lib/libnccl.so: the wheel's, or the system's."""
    try:
        import nvidia.nccl as wheel  # a namespace package: no __file__
        home = list(wheel.__path__)[0]
    except ImportError:
        return "/usr"
    plain = f"{home}/lib/libnccl.so"
    if not os.path.exists(plain):
        os.symlink("libnccl.so.2", plain)
    return home


def build():
    home = nccl_home()
    out = subprocess.run(["make", "-j8", "-C", f"{SOURCE}/src", "BUILDDIR=../build", f"NCCL_HOME={home}",
                          "CUDA_HOME=/usr/local/cuda", "NVCC_GENCODE=-gencode=arch=compute_90,code=sm_90",
                          "../build/all_reduce_perf"], capture_output=True, text=True)
    program = os.path.abspath(f"{SOURCE}/build/all_reduce_perf")
    if not os.path.exists(program):
        raise SystemExit(f"nccl-tests was not built:\n{(out.stdout + out.stderr)[-2500:]}")
    return program, f"{home}/lib"


def busbw(text):
    return statistics.median(float(line.split()[7]) for line in text.splitlines()
                             if re.match(r"\s*\d+\s+\d+\s+float", line))


def run(tag, argv, libraries, traced):
    env = {**os.environ, "LD_LIBRARY_PATH": libraries, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "COLL",
           "NCCL_DEBUG_FILE": f"{OUT}/{tag}.nccl.%p"}
    for old in glob.glob(f"{OUT}/{tag}.*"):
        os.unlink(old)
    wrap = [RANKTRACE, "record", "--json", "-o", f"{OUT}/{tag}.rtr", "-o", f"{OUT}/{tag}.pftrace",
            "--exit-status=command", "--"]
    out = subprocess.run((wrap if traced else []) + argv, capture_output=True, text=True, env=env, timeout=120)
    if out.returncode:
        raise SystemExit(f"{tag}: exit {out.returncode}\n{(out.stdout + out.stderr)[-2500:]}")
    return out.stderr + out.stdout  # of a traced program standard output is there


def logged(tag):
    """All-reduces by NCCL's own word, by rank's communicator (a pointer: in a group the log's [N] is no rank's)."""
    counts = collections.Counter()
    for path in glob.glob(f"{OUT}/{tag}.nccl.*"):
        with open(path, encoding="utf-8", errors="replace") as f:
            counts.update(m[1] for m in re.finditer(r"NCCL INFO AllReduce: opCount.* comm (0x\w+) ", f.read()))
    return counts


def shape(name, *args):
    tag, argv = f"nccl-tests-{name}", [PROGRAM, *SIZES, *args]
    plain = busbw(run(f"{tag}-plain", argv, LIBRARIES, False))
    text = run(tag, argv, LIBRARIES, True)
    out = subprocess.run([RANKTRACE, "replay", "-q", "--ops", f"{OUT}/{tag}.rtr"], capture_output=True, text=True)
    ops = [o for o in map(json.loads, out.stdout.splitlines()) if o["op"] == "AllReduce"]
    seen, truth = collections.Counter(f"GPU {o['gpu']}, rank {o['comm_rank']}" for o in ops), logged(tag)
    findings = [json.loads(line) for line in text.splitlines() if line.startswith('{"')]
    say(tag, right=len(truth) == GPUS and sorted(seen.values()) == sorted(truth.values()), seen=seen, nccl_logged=truth,
        without_rank=sum(o.get("comm_rank") is None for o in ops), busbw=[plain, busbw(text)],
        findings=[f["summary"] for f in findings if f["phase"] == "open"])


os.makedirs(OUT, exist_ok=True)
try:
    PROGRAM, LIBRARIES = build()
    shape("g", "-g", str(GPUS))
    if GPUS > 1:
        shape("t", "-t", str(GPUS), "-g", "1")
except SystemExit as e:
    print(e)
    sys.exit(1)
