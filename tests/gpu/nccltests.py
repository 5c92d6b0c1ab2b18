# SPDX-License-Identifier: Apache-2.0
"""On a machine with NVIDIA GPUs, nvcc and NCCL: NVIDIA nccl-tests, built from the source in NCCL_TESTS, under `record`.
Every all-reduce of each rank is counted against NCCL's own log (NCCL_DEBUG_SUBSYS=COLL), and each operation has its
rank and GPU; the reported bus bandwidth traced beside untraced. Shapes: one process for all GPUs (-g), a thread for
each (-t), a process for each (p: with the MPI of mpi/mpi.h); with one GPU there is one shape. Then `watch` and `record`
come to a run with a thread for each GPU, and one thread is stopped as by a debugger (stopped): its rank is named, and
the thread. Prints one JSON line a shape. Arguments: some of g, t, p, stopped (default: all); `build NAME` builds that
program as a process for each GPU and prints its folder. RANKS: more processes than GPUs, which share them (p)."""
import collections
import ctypes
import glob
import json
import os
import re
import statistics
import signal
import subprocess
import sys
import time

from gpujob import GPUS, OUT, RANKTRACE, mpi_run, say

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


def build(folder="build", flags="", name="all_reduce_perf"):
    home = nccl_home()
    out = subprocess.run(["make", "-j8", "-C", f"{SOURCE}/src", f"BUILDDIR=../{folder}", f"NCCL_HOME={home}",
                          "CUDA_HOME=/usr/local/cuda", "NVCC_GENCODE=-gencode=arch=compute_90,code=sm_90",
                          f"CXXSTD=-std=c++17 {flags}", f"../{folder}/{name}"], capture_output=True, text=True)
    program = os.path.abspath(f"{SOURCE}/{folder}/{name}")
    if not os.path.exists(program):
        raise SystemExit(f"nccl-tests was not built:\n{(out.stdout + out.stderr)[-2500:]}")
    return program, f"{home}/lib"


def build_processes(name="all_reduce_perf"):
    return build("build-processes", f"-DMPI_SUPPORT=1 -I{os.path.dirname(os.path.abspath(__file__))}/mpi", name)[0]


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


def shape(name, *args, command=None):
    tag, argv = f"nccl-tests-{name}", [*(command or [PROGRAM]), *SIZES, *args]
    plain = busbw(run(f"{tag}-plain", argv, LIBRARIES, False))
    text = run(tag, argv, LIBRARIES, True)
    out = subprocess.run([RANKTRACE, "replay", "-q", "--ops", f"{OUT}/{tag}.rtr"], capture_output=True, text=True)
    ops = [o for o in map(json.loads, out.stdout.splitlines()) if o["op"] == "AllReduce"]
    seen, truth = collections.Counter(f"GPU {o['gpu']}, rank {o['comm_rank']}" for o in ops), logged(tag)
    findings = [json.loads(line) for line in text.splitlines() if line.startswith('{"')]
    say(tag, right=len(truth) == GPUS and sorted(seen.values()) == sorted(truth.values()), seen=seen, nccl_logged=truth,
        without_rank=sum(o.get("comm_rank") is None for o in ops), busbw=[plain, busbw(text)],
        findings=[f["summary"] for f in findings if f["phase"] == "open"])


def thread_of_last(pid):
    """Main is rank 0's; of the others the busiest. With two GPUs that is rank 1's."""
    def ticks(tid):
        with open(f"/proc/{pid}/task/{tid}/stat", encoding="utf-8") as f:
            return sum(map(int, f.read().rpartition(") ")[2].split()[11:13]))
    return max((t for t in map(int, os.listdir(f"/proc/{pid}/task")) if t != pid), key=ticks)


def thread_stop(tid):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 4
    seize, interrupt = 0x4206, 0x4207
    if libc.ptrace(seize, tid, 0, 0) or libc.ptrace(interrupt, tid, 0, 0):
        raise SystemExit(f"ptrace: {os.strerror(ctypes.get_errno())}")


def stopped():
    env = {**os.environ, "LD_LIBRARY_PATH": LIBRARIES}
    target = subprocess.Popen([PROGRAM, "-b", "16M", "-e", "16M", "-n", "10000000", "-t", str(GPUS), "-g", "1"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    time.sleep(10)
    sessions = {tier: subprocess.Popen([RANKTRACE, tier, "--json", "--pid", str(target.pid)], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True) for tier in ("watch", "record")}
    time.sleep(12)
    tid, at_ns = thread_of_last(target.pid), time.monotonic_ns()
    thread_stop(tid)
    time.sleep(12)
    for tier, session in sessions.items():
        session.send_signal(signal.SIGINT)
        found = [json.loads(line) for line in session.communicate(timeout=60)[0].splitlines()]
        after = [f for f in found if f["t_ns"] > at_ns and f["kind"] == "hang" and f["phase"] != "close"]
        named = after[-1] if after else {"ranks": [], "class": None, "evidence": {}}
        say(f"nccl-tests-stopped-{tier}", right=named["class"] == "stopped" and named["evidence"].get("tid") == tid and
            (GPUS != 2 or named["ranks"] == [1]), tid=tid, summary=named.get("summary"),
            thread=named["evidence"].get("tid"), after_s=after and round((after[0]["t_ns"] - at_ns) / 1e9, 2),
            before=[f["summary"] for f in found if f["t_ns"] <= at_ns and f["severity"] != "info"])
    target.kill()


def main(parts):
    global PROGRAM, LIBRARIES
    os.makedirs(OUT, exist_ok=True)
    PROGRAM, LIBRARIES = build()
    if "g" in parts:
        shape("g", "-g", str(GPUS))
    if "t" in parts and GPUS > 1:
        shape("t", "-t", str(GPUS), "-g", "1")
    if "stopped" in parts and GPUS > 1:
        stopped()
    if "p" in parts and GPUS > 1:
        shape("p", "-g", "1", command=[sys.executable, os.path.abspath(__file__), "processes", build_processes()])


if sys.argv[1:2] == ["processes"]:
    sys.exit(mpi_run(sys.argv[2:], GPUS).returncode)
try:
    if sys.argv[1:2] == ["build"]:
        sys.exit(print(os.path.dirname(build_processes(sys.argv[2]))))
    main(sys.argv[1:] or ["g", "t", "p", "stopped"])
except SystemExit as e:
    print(e)
    sys.exit(1)
