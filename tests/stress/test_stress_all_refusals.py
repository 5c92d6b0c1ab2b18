# SPDX-License-Identifier: Apache-2.0
"""`ranktrace stress all` where it cannot test, and `stress inventory`: a busy or lost GPU, no driver, usage, Ctrl-C;
versions that do not fit, and a process that was left over."""
import json
import os
import signal
import subprocess
import sys
import time

here = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [f"{here}/../aid", f"{here}/../replay"]
import job
from stress import LOST, QUICK, Gpus, expect, stress, without
from test_stress_schema import lines_check
from verbs_sim import Verbs, library


def not_possible():
    g = Gpus(2)
    g.process(1, os.getpid())
    p = stress(g, *QUICK, "--quiet")
    expect("busy", p, 3, "gpu: GPU 1 is in use", str(os.getpid()))
    job.check("passed" not in p.stdout + p.stderr, "a busy GPU says passed")
    job.check("0 others" not in p.stdout + p.stderr, f"one process has no others: {p.stdout}")
    me = f"process {os.getpid()}"
    for n, what in ((2, f"{me} and 1 other have a context"), (4, f"{me} and 3 others have"),
                    (65, "more than 64 processes have a context")):
        g = Gpus(2, SIM_NVML_PROCESSES=n)
        g.process(1, os.getpid())
        expect(f"{n} processes", stress(g, *QUICK, "--quiet"), 3, f"gpu: GPU 1 is in use: {what}")
    expect("and in the inventory", stress(g, "inventory"), 0, "more than 64 processes have a context on it")
    expect("no GPU", stress(Gpus(2, SIM_CUDA_FAIL="cuInit:error=100"), *QUICK), 3, "no GPU", "CUDA_VISIBLE_DEVICES")
    expect("no driver", stress(Gpus(2, **without("libcuda.so.1")), *QUICK), 3, "libcuda.so.1", "install NVIDIA's")
    expect("another major version", stress(Gpus(2, SIM_CUBLASLT_VERSION=140000), *QUICK), 3,
           "cuBLASLt is version 140000", "--cublaslt FILE")
    expect("out of memory", stress(Gpus(1, SIM_GPU_MIB=60), *QUICK), 3, "out of memory", "not possible here")
    g = Gpus(2)
    g.fault(0, LOST)
    expect("lost before", stress(g, *QUICK), 1, "GPU 0", "lost: ")
    expect("one GPU has no links", stress(Gpus(1), *QUICK), 0, "it needs 2 GPUs, and this host has 1",
           "passed after", "a short check; --full has all types", "not judged: no baseline", "GPU 0 ")
    expect("how thorough", stress(Gpus(1), "all"), 2, "--quick", "--full")
    expect("both", stress(Gpus(1), "all", "--quick", "--full"), 2, "--quick")
    expect("a place for none", stress(Gpus(1), *QUICK, "--html", "/nowhere/x"), 2, "/nowhere/x", "No such file")
    expect("a place for no lines", stress(Gpus(1), *QUICK, "--lines", "/nowhere/x"), 2, "/nowhere/x", "No such file")
    expect("of all alone", stress(Gpus(1), "gpu", "--quick"), 2, "--quick is an option of stress all")


def interrupted():
    g = Gpus(2)
    p = subprocess.Popen([os.path.abspath(job.RANKTRACE), "stress", *QUICK[:-1], "30"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, env=g.env)
    p.stdout.readline()  # inventory is over, gpu at work
    time.sleep(0.7)
    begin = time.monotonic()
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=30)
    print(f"Ctrl-C: exit {p.returncode} after {time.monotonic() - begin:.1f} s")
    job.check(p.returncode == 3 and "gpu: " in err and "stopped before it began" in out, f"{out}{err}")


def interrupted_behind_wrong_data():
    """What a test has seen when it is cut is a fault, and no 'cut'."""
    g, v = Gpus(1), Verbs(4, SIM_VERBS_FLIP=1)
    env = dict(g.env, **{name: value for name, value in v.env.items() if name not in os.environ})
    p = subprocess.Popen([os.path.abspath(job.RANKTRACE), "stress", *QUICK, "--verbs", library(), "--no-gpus", "--json",
                          "--shapes", "nic-to-nic", "--operations", "write", "--measures", "bandwidth"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    lines = []
    while not lines or not lines[-1].get("wrong"):
        lines.append(json.loads(p.stdout.readline()))
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=30)
    lines += map(json.loads, out.splitlines())
    stage = next(x for x in lines if x.get("stage") == "rdma")
    found = [[x[end].get("device") for end in ("subject", "to") if end in x] for x in lines if x["type"] == "fault"]
    print(f"Ctrl-C behind wrong data: exit {p.returncode}, {stage['status']}, {found}")
    job.check(p.returncode == 1 and stage["status"] == "failed" and found, f"{stage} {found} {err}")
    job.check(all("sim1" in ends for ends in found), f"{found}")


def inventory():
    proc = f"{Gpus(1).dir}/version"
    with open(proc, "w", encoding="utf-8") as f:
        f.write("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159  Tue Oct  7 00:00:00 UTC 2025\n")
    fits = dict(RANKTRACE_NVIDIA_PROC=proc)
    p = stress(Gpus(2, **fits), "inventory")
    expect("versions", p, 0, "module 580.159, library 580.159, CUDA 13.0", "kernel", "NCCL", "GPU 1 ")
    expect("another library", stress(Gpus(2, SIM_DRIVER_VERSION="575.51", **fits), "inventory"), 1, "575.51", "reboot")
    expect("a driver that refuses its library", stress(Gpus(2, SIM_NVML_MISMATCH="1", **fits), "inventory"), 1,
           "of two versions", "580.159")
    expect("cuBLASLt too new", stress(Gpus(2, SIM_CUDA_DRIVER_VERSION="12040", **fits), "inventory"), 1,
           "cuBLASLt 13 needs a driver for CUDA 13", "12.4")
    g = Gpus(2, **fits)
    g.process(1, os.getpid())
    expect("at work", stress(g, "inventory"), 0, f"{os.getpid()} (python3", "GPU 1")
    zombie = subprocess.Popen(["true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays unreaped
    g.process(1, zombie.pid)
    lines = lines_check("left over", stress(g, "inventory", "--json").stdout)
    left = [line for line in lines if line["type"] == "fault"]
    zombie.wait()
    job.check(len(left) == 1 and left[0]["kind"] == "left_over" and left[0]["subject"]["gpu"] == 1, f"{left}")


def named():
    """A GPU that a user names has to be there; a name that none has is usage, as in the other tests, and no lost GPU.
    What a finding names was there: test_stress_confirm.py."""
    mig = "MIG-51300000-0000-0000-0000-000000000001"
    g = Gpus(2, SIM_GPU_MIG=mig)
    for name in ("GPU-51300000-0000-0000-0000-000000000001", "gpu-51300000-0000-0000-0000-000000000000", mig,
                 "0000:11:00", "00000000:10:00.0", "11:00.0", "0-1"):
        expect(f"named {name}", stress(g, "inventory", "--gpus", name), 0, "passed")
    for name, words in (("GPU-51300000", ["no GPU of this host is GPU-51300000", "whole UUIDs"]),
                        ("MIG-51300000-9", ["no GPU of this host is MIG-51300000-9", "CUDA_VISIBLE_DEVICES"]),
                        ("0000:44:00.0", ["no GPU of this host is 0000:44:00.0", "Bus-Id"]),
                        ("0001:10:00.0", ["no GPU of this host is 0001:10:00.0"]),
                        ("7", ["NVML counts 2 GPUs"]), ("0,2", ["NVML counts 2 GPUs"])):
        p = stress(g, "inventory", "--gpus", name)
        expect(f"none is {name}", p, 2, "--gpus: ", *words)
        job.check("FAULT" not in p.stdout and "drain" not in p.stdout + p.stderr, p.stdout)
    for name, words in (("GPU-51300000", ["no GPU of this host is GPU-51300000"]), ("2", ["this host has 2"])):
        p = stress(g, *QUICK, "--gpus", name)
        expect(f"all of it, and none is {name}", p, 3, *words)
        job.check("critical" not in p.stdout and "passed after" not in p.stdout, p.stdout)
    p = stress(g, *QUICK, "--gpus", "GPU-51300000")
    job.check("is one GPU, and collectives need two" in p.stdout, f"nccl on others than the one named: {p.stdout}")
    expect("a domain of its own each", stress(Gpus(2, SIM_GPU_DOMAINS=1), "inventory", "--gpus", "10:00.0"), 2,
           "several GPUs of this host are 10:00.0")
    g.fault(1, LOST)
    p = stress(g, "inventory", "--gpus", "GPU-51300000-0000-0000-0000-000000000001")
    expect("named, and lost", p, 1, "GPU 1: NVML cannot open it")
    job.check("no GPU of this host" not in p.stderr, p.stderr)


for case in (not_possible, interrupted, interrupted_behind_wrong_data, inventory, named):
    case()
