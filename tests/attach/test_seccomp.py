# SPDX-License-Identifier: Apache-2.0
"""Targets whose seccomp filter kills for the system call behind return probes (x86-64, kernel 6.11): a whole job that
starts under it, communicator creations and waits included, and a program that puts itself under it while it is traced.
No return probe may be in use. Kernels from 6.14 let that call pass whatever the filter says, so the records are what
is checked; on 6.11 to 6.13 a return probe that is left would kill.
"""
import collections
import ctypes
import json
import os
import platform
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import cuda_records
import job
import rtr

CALLS = 20
NO_CONTEXT = 201  # the driver's answer to a wait of a program that made none
NCCL_READY, READY_RETURNED = 4, 37  # struct nccl_ready, behind the header
CREATIONS = 12  # 4 ranks: the world, tensor parallel, data parallel
NOTICED_S = 4  # a young process is sampled every 50 ms; a link takes the kernel another 50 and more to close


def filter_install():
    """Allows everything but the uretprobe system call, which kills the process."""
    class Filter(ctypes.Structure):
        _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]

    class Program(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.POINTER(Filter))]

    # A = nr; if A == 335 (uretprobe) kill the process, else allow
    rows = (Filter * 4)((0x20, 0, 0, 0), (0x15, 0, 1, 335), (0x06, 0, 0, 0x80000000), (0x06, 0, 0, 0x7fff0000))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(Program(4, rows)), 0, 0):
        sys.exit("prctl: " + os.strerror(ctypes.get_errno()))


def late_program(library):
    cuda = ctypes.CDLL(library)
    time.sleep(2)
    for _ in range(CALLS):
        cuda.cuCtxSynchronize()
    filter_install()
    time.sleep(NOTICED_S)
    for _ in range(CALLS):
        cuda.cuCtxSynchronize()


def whole_job():
    """Every operation and creation of the job, as without a filter; and nothing that a return probe saw."""
    rng, number = job.seed()
    with tempfile.TemporaryDirectory(prefix="ranktrace-seccomp-") as d:
        sim = [job.RANKTRACE, "sim", "job", "--ranks", "4", "--layout", "tp=2,dp=2", "--steps", "20", "--seed",
               str(number),
               "--log", f"{d}/ops.jsonl", "--quiet"]
        out = subprocess.run([job.RANKTRACE, "record", *job.NO_BUDGET, "-o", f"{d}/a.rtr",
                              "--exit-status=command", "--",
                              sys.executable, "-B", os.path.abspath(__file__), "filtered", *sim], capture_output=True,
                             text=True, timeout=120)
        job.check(out.returncode == 0, f"the job under seccomp: exit {out.returncode}: {out.stderr}")
        seen = subprocess.run([job.RANKTRACE, "replay", "--ops", "-q", f"{d}/a.rtr"], capture_output=True, text=True,
                              timeout=60)
        ops = [json.loads(line) for line in seen.stdout.splitlines()]
        truth = job.lines(f"{d}/ops.jsonl")
        missing, extra = job.compare_ops(truth, ops)
        ready = [body[READY_RETURNED] for tracer, kind, _, _, body in rtr.records(f"{d}/a.rtr")
                 if (tracer, kind) == (rtr.NCCL, NCCL_READY)]
        waits = [r["result"] for r in cuda_records.records(f"{d}/a.rtr") if r["kind"] == "sync_end"]
    print(f"job under seccomp: {len(truth)} operations, {len(missing)} missing, {len(extra)} extra; {len(ready)} "
          f"creations "
          f"({sum(ready)} seen to return), {len(waits)} waits")
    job.check(truth and not missing and not extra, f"missing {missing[:3]}, extra {extra[:3]}")
    job.check(len(ready) == CREATIONS and not any(ready), f"return probes on creations: {ready}")
    job.check(waits and set(waits) == {-1}, f"return probes on waits: {collections.Counter(waits)}")


def filter_later():
    with tempfile.TemporaryDirectory(prefix="ranktrace-seccomp-") as d:
        library = os.path.join(os.path.dirname(job.RANKTRACE), "lib/ranktrace/sim/libcuda.so.1")
        out = subprocess.run([job.RANKTRACE, "record", *job.NO_BUDGET, "-o", f"{d}/a.rtr",
                              "--exit-status=command", "--",
                              sys.executable, "-B", os.path.abspath(__file__), "late", library], capture_output=True,
                             text=True, timeout=60)
        job.check(out.returncode == 0, f"a program that came under seccomp: exit {out.returncode}: {out.stderr}")
        job.check("came under seccomp" in out.stderr, f"it was not reported: {out.stderr}")
        ends = [r for r in cuda_records.records(f"{d}/a.rtr") if r["kind"] == "sync_end"]
    results = [r["result"] for r in ends]
    results = [0 if r == NO_CONTEXT else r for r in results]
    print(f"filter put on later: {results.count(0)} waits with their result, then {results.count(-1)} without")
    # the last wait is known to be over by the next call only, and there is none
    job.check(results == [0] * CALLS + [-1] * (CALLS - 1), f"results of the waits: {results}")


if sys.argv[1:2] == ["filtered"]:
    filter_install()
    os.execv(sys.argv[2], sys.argv[2:])
elif sys.argv[1:2] == ["late"]:
    late_program(sys.argv[2])
else:
    job.need_root()
    if platform.machine() != "x86_64" or tuple(map(int, platform.release().split(".")[:2])) < (6, 11):
        job.skip("no uretprobe system call on this kernel")
    whole_job()
    for _ in range(job.TRIALS):
        filter_later()
