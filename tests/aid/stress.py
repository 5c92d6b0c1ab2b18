# SPDX-License-Identifier: Apache-2.0
"""`ranktrace stress` against the stand-ins for the driver, NVML and cuBLASLt: GPUs whose memory has contents and whose
kernels are done in C (SIM_CUDA_COMPUTE), so small matrices and little memory."""
import json
import os
import shutil
import struct
import subprocess
import tempfile
import time

import job

SIM = os.path.join(os.path.abspath(job.O), "lib/ranktrace/sim")
# struct sim_gpus of tools/simjob/libnvml/gpu_state.h: where a GPU begins, how long it is, its busy spans
GPUS_AT, GPU_BYTES, SPANS_AT = 8, 40 + 2 * (8 + 4096 * 16), 40
THERMAL, ECC, ROWS, LOST, XID = 1 << 0, 1 << 2, 1 << 3, 1 << 7, 1 << 10
SMALL = ["--size", "64", "--memory", "10"]


class Gpus:
    """Simulated GPUs with a state of their own."""

    def __init__(self, n, **env):
        self.dir = tempfile.mkdtemp(prefix="ranktrace-stress-")
        job.dirs.append(self.dir)
        self.state = f"{self.dir}/gpus"
        with open(self.state, "wb") as f:
            f.write(struct.pack("<I", n))
            f.truncate(GPUS_AT + 64 * GPU_BYTES)
        self.env = dict(os.environ, LD_LIBRARY_PATH=SIM, RANKTRACE_NVML=f"{SIM}/libnvidia-ml.so.1",
                        SIM_CUDA_COMPUTE="1", SIM_CUDA_DEVICES=str(n), SIM_GPU_MIB="128", SIM_CUDA_INIT_MS="0",
                        SIM_GPU_STATE=self.state, SIM_GEMM_NS="1000000")  # slower than a busy host enqueues
        self.env.update({k: str(v) for k, v in env.items()})

    def write(self, gpu, at, form, *values):
        with open(self.state, "r+b") as f:
            f.seek(GPUS_AT + gpu * GPU_BYTES + at)
            f.write(struct.pack(form, *values))

    def fault(self, gpu, bits):
        """Counters of errors begin to move now."""
        self.write(gpu, 8, "<Q", time.monotonic_ns())
        self.write(gpu, 4, "<I", bits)

    def process(self, gpu, pid):
        self.write(gpu, 0, "<I", pid)

    def work(self, gpu):
        """A kernel of somebody's, since ever and for ever."""
        self.write(gpu, SPANS_AT, "<QQQ", 1, 0, (1 << 63) - 1)

    def idle(self):
        """What ran before is no work of now."""
        for gpu in range(int(self.env["SIM_CUDA_DEVICES"])):
            self.write(gpu, SPANS_AT, "<Q", 0)

    def argv(self, *args):
        return [os.path.abspath(job.RANKTRACE), "stress", "gpu", *SMALL, *map(str, args)]

    def run(self, *args, **kw):
        self.idle() if not kw.pop("at_work", False) else None
        return subprocess.run(self.argv(*args), capture_output=True, text=True, timeout=120, env=self.env, **kw)

    def lines(self, *args, **kw):
        """(exit status, JSON lines by type, standard error)"""
        p = self.run("--json", *args, **kw)
        by = {}
        for line in map(json.loads, p.stdout.splitlines()):
            by.setdefault(line["type"], []).append(line)
        return p.returncode, by, p.stderr


def dip(gpus, argv, seen, times=1):
    """Slowness that ends when `seen` has been printed so often. (exit status, standard output)"""
    slow = f"{gpus.dir}/slow"
    open(slow, "w").close()
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=dict(gpus.env, SIM_SLOW_WHILE=slow))
    lines = []
    for line in p.stdout:
        lines.append(line)
        times -= seen in line
        if times <= 0 and os.path.exists(slow):
            os.remove(slow)
    job.check(times <= 0, f"'{seen}' was not printed: {''.join(lines)}")
    return p.wait(60), "".join(lines)


def without(*missing):
    """The stand-ins without some of them."""
    d = tempfile.mkdtemp(prefix="ranktrace-stress-")
    job.dirs.append(d)
    for name in ("libcuda.so.1", "libcublasLt.so.13", "libnvidia-ml.so.1", "libnccl.so.2"):
        if name not in missing:
            shutil.copy(f"{SIM}/{name}", d)
    return {"LD_LIBRARY_PATH": d, "RANKTRACE_NVML": f"{d}/libnvidia-ml.so.1"}


def older_nccl():
    """The stand-ins with a libnccl of before 2.28: ncclAlltoAll and pncclAlltoAll, one string, have other names."""
    env = without()
    with open(f"{env['LD_LIBRARY_PATH']}/libnccl.so.2", "r+b") as f:
        library = f.read()
        job.check(b"ncclAlltoAll\0" in library, "the stand-in has no ncclAlltoAll")
        f.seek(0)
        f.write(library.replace(b"ncclAlltoAll\0", b"ncclAlltoNot\0"))
    return dict(env, SIM_NCCL_VERSION="22705")


QUICK = ["all", "--quick", "--size", "64", "--memory", "10", "--bytes", "1M", "--time", "1.5"]


def stress(gpus, *args):
    """Any test, as it is called."""
    return subprocess.run([os.path.abspath(job.RANKTRACE), "stress", *map(str, args)], capture_output=True, text=True,
                          timeout=120, env=gpus.env)


def expect(what, p, code, *words, out=None):
    """Its exit status, and what it has to say."""
    text = p.stdout + p.stderr
    print(f"{what}: exit {p.returncode}, {len(p.stdout.splitlines())} lines")
    job.check(p.returncode == code, f"{what}: exit {p.returncode}, not {code}: {text}")
    missing = [w for w in words if w not in text]
    job.check(not missing, f"{what}: {missing} not in {text}")
    if out is not None:
        job.check(p.stdout == out, f"{what}: {p.stdout!r}")
