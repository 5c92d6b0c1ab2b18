# SPDX-License-Identifier: Apache-2.0
"""Faults that a job strikes itself with, once: --fault NAME:rank=R,at=SECONDS (from the job's begin). hang (asleep in
Python), lock (a Python lock that another thread holds), kernel-one and kernel-all (a kernel that never ends, on one SM
or all of them), kernel-forward (the same on one SM; the job strikes inside its forward pass)."""
import os
import threading
import time


def sleep_for_ever():
    time.sleep(86400)  # the call site of `hang`


def wait_for_lock():
    lock = threading.Lock()
    lock.acquire()
    threading.Thread(target=time.sleep, args=(86400,), name="holder", daemon=True).start()
    with lock:  # the call site of `lock`
        pass


def endless_kernel():
    """Compiled: a function of blocks and threads that launches it on the current stream and gives its flag, which has
    to stay allocated."""
    import cupy
    import torch
    kernel = cupy.RawKernel('extern "C" __global__ void endless(volatile int *flag) { while (!*flag) { } }', "endless")
    kernel.compile()
    flag = cupy.zeros(1, cupy.int32)

    def launch(blocks, threads):
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            kernel((blocks,), (threads,), (flag,))
        return flag
    return launch


def cycles_per_ms():
    """Of torch.cuda._sleep(), measured on the current device."""
    import torch
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(1000000)
    a.record()
    torch.cuda._sleep(20000000)
    b.record()
    torch.cuda.synchronize()
    return 20000000 / a.elapsed_time(b)


def call_site(name):
    """The line of this file at which the host stands in that fault, as a Python frame shows it; None: the job's own."""
    if name not in ("hang", "lock"):
        return None
    with open(__file__, encoding="utf-8") as f:
        return f"jobfault.py:{next(i for i, line in enumerate(f, 1) if line.rstrip().endswith(f'`{name}`'))}"


class Fault:
    def __init__(self, text, rank):
        """After torch.cuda.set_device(): a kernel is compiled here, for the fault to come without a pause."""
        self.name, _, args = text.partition(":")
        args = dict(kv.split("=") for kv in args.split(",") if kv)
        self.text, self.rank, self.at_s = text, rank, float(args.get("at", 0))
        self.is_due_here = bool(self.name) and int(args["rank"]) == rank
        self.launch = endless_kernel() if self.is_due_here and self.name.startswith("kernel") else None
        self.kept, self.begin = None, time.monotonic()

    def strike(self):
        """Call it where the fault may come; it does so at the first call past its time."""
        if not self.is_due_here or time.monotonic() - self.begin < self.at_s:
            return
        self.is_due_here = False
        print(f"fault {self.text} rank={self.rank} pid={os.getpid()} t_ns={time.monotonic_ns()}", flush=True)
        if self.name == "hang":
            sleep_for_ever()
        elif self.name == "lock":
            wait_for_lock()
        else:
            self.kept = self.launch(*((264, 1024) if self.name == "kernel-all" else (1, 32)))
