# SPDX-License-Identifier: Apache-2.0
"""Simulated GPUs for end-to-end tests: the stand-in for NVML, and a file in place of the kernel log."""
import os
import tempfile

import job


def use():
    """Every job and tracer started from here on has them. The file that stands for /dev/kmsg."""
    d = tempfile.mkdtemp(prefix="ranktrace-gpus-")
    job.dirs.append(d)
    os.environ["RANKTRACE_NVML"] = os.path.join(os.path.abspath(job.O), "lib/ranktrace/sim/libnvidia-ml.so.1")
    os.environ["SIM_GPU_STATE"] = f"{d}/gpus"
    os.environ["RANKTRACE_KMSG"] = f"{d}/kmsg"
    open(f"{d}/kmsg", "w").close()
    return f"{d}/kmsg"


def pci(gpu):
    return f"0000:{0x10 + gpu:02x}:00"


def by_cause(j, kind="gpu_health"):
    """{cause: ranks} of what was opened."""
    return {f["cause"]: f["ranks"] for f in j.opened() if f["kind"] == kind}
