# SPDX-License-Identifier: Apache-2.0
"""`ranktrace stress gpu` where it cannot test, is told nonsense, is interrupted or resumed: a message with object,
cause and remedy, the exit code, and never a silent pass."""
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job
from stress import LOST, SIM, Gpus, without

ONE = ["--only", "bf16", "--time", "0.5"]


def expect(what, p, code, *words):
    text = p.stderr.strip()
    print(f"{what}: exit {p.returncode}: {text.splitlines()[-1] if text else ''}")
    job.check(p.returncode == code, f"{what}: exit {p.returncode}, not {code}: {text}{p.stdout}")
    for word in words:
        job.check(word in text, f"{what}: '{word}' is not in the message: {text}")


def libraries():
    expect("no driver", Gpus(1, **without("libcuda.so.1")).run(*ONE), 3, "libcuda.so.1", "install NVIDIA's driver")
    expect("no NVML", Gpus(1, **without("libnvidia-ml.so.1")).run(*ONE), 3, "libnvidia-ml.so.1", "driver")
    if not os.path.exists("/usr/local/cuda/lib64/libcublasLt.so"):
        expect("no cuBLASLt", Gpus(1, **without("libcublasLt.so.13")).run(*ONE), 3, "libcublasLt.so.13", "--cublaslt")
    g = Gpus(1, **without("libcublasLt.so.13"))
    expect("memory alone needs no cuBLASLt", g.run("--only", "memory", "--time", "0.5"), 0)
    expect("cuBLASLt given", g.run(*ONE, "--cublaslt", f"{SIM}/libcublasLt.so.13"), 0)
    expect("cuBLASLt given wrongly", g.run(*ONE, "--cublaslt", "/nowhere/x.so"), 3, "/nowhere/x.so")
    expect("another library", g.run(*ONE, "--cublaslt", f"{SIM}/libcuda.so.1"), 3, "cublasLt")
    expect("another major version", Gpus(1, SIM_CUBLASLT_VERSION=140000).run(*ONE), 3, "140000", "11 to 13")
    expect("driver too old for the PTX", Gpus(1, SIM_CUDA_DRIVER_VERSION=10010).run(*ONE), 3, "PTX 6.5", "CUDA 10.1",
           "Unsupported .version 6.5", "440.33")
    expect("no GPU", Gpus(1, SIM_CUDA_FAIL="cuInit:error=100").run(*ONE), 3, "no GPU", "CUDA_VISIBLE_DEVICES")
    g = Gpus(2)
    g.fault(1, LOST)
    expect("lost before the start", g.run(*ONE), 3, "GPU 1", "lost", "reset")


def busy():
    g = Gpus(2)
    g.process(1, os.getpid())
    expect("a process", g.run(*ONE), 3, "GPU 1 is in use", str(os.getpid()), "--force")
    expect("the other GPU", g.run(*ONE, "--gpus", "0"), 0)
    expect("forced", g.run(*ONE, "--force"), 0)
    g = Gpus(2)
    g.work(0)
    expect("work, no process to be seen", g.run(*ONE, at_work=True), 3, "GPU 0 is in use", "100 %")
    expect("out of memory", Gpus(1, SIM_CUDA_FAIL="cuMemAlloc_v2:after=3:error=2").run(*ONE), 3, "GPU 0: out of memory",
           "--size")
    expect("too little memory", Gpus(1, SIM_GPU_MIB=60).run(*ONE), 3, "out of memory", "of 60 MiB")


def usage():
    for args, words in (([], ["which test"]), (["gpus"], ["'gpus' is no test"]), (["gpu", "p2p"], ["'p2p'"]),
                        (["gpu", "--time", "x"], ["--time: 'x'"]), (["gpu", "--only", "bf17"], ["'bf17'", "fp64"]),
                        (["gpu", "--size", "100"], ["multiple of 64"]), (["gpu", "--size", "1"], ["from 64"]),
                        (["gpu", "--gpus", "a"], ["'a'"]), (["gpu", "--memory", "99"], ["1 to 95"]),
                        (["gpu", "--resume"], ["--log"]), (["gpu", "--inject", "x"], ["flip:gpu=0"]),
                        (["gpu", "--size", "64", "--inject", "flip:gpu=0,row=64,col=0,bit=0"], ["below 64"])):
        p = subprocess.run([job.RANKTRACE, "stress", *args], capture_output=True, text=True, timeout=60)
        expect(" ".join(args) or "nothing", p, 2, *words)
    expect("a GPU that is not there", Gpus(2).run(*ONE, "--gpus", "2"), 2, "this host has 2")
    expect("a fault on it", Gpus(2).run(*ONE, "--inject", "flip:gpu=2,row=0,col=0,bit=0"), 2, "GPU 2")
    expect("no baseline", Gpus(1).run(*ONE, "--baseline", "/nowhere/b"), 2, "/nowhere/b")
    expect("no baseline's line", Gpus(1).run(*ONE, "--baseline", "/etc/passwd"), 2, "/etc/passwd, line 1")
    expect("a place for none", Gpus(1).run(*ONE, "--save-baseline", "/nowhere/b"), 2, "/nowhere/b", "No such file")
    expect("a log that is no file", Gpus(1).run(*ONE, "--log", "/dev/full", "--resume"), 2, "/dev/full")
    p = subprocess.run([job.RANKTRACE, "stress", "--help"], capture_output=True, text=True)
    job.check(p.returncode == 0 and "--self-test" in p.stdout and "1: a device failed" in p.stdout, p.stdout)


def baseline():
    g = Gpus(2)
    path = f"{g.dir}/baseline"
    expect("a baseline", g.run(*ONE, "--save-baseline", path), 0)
    expect("held", g.run(*ONE, "--force", "--baseline", path), 0)
    g.env["SIM_GEMM_NS"] = "1120000"
    status, by, _ = g.lines(*ONE, "--force", "--baseline", path)
    job.check(status == 1 and all("own baseline" in f["summary"] for f in by["fault"]) and len(by["fault"]) == 2,
              f"12 % slower than the baseline, both: exit {status}, {by.get('fault')}")
    bad = Gpus(2, SIM_GEMM_FLIP="1:5:7:0").run(*ONE, "--save-baseline", f"{g.dir}/bad")
    job.check(bad.returncode == 1 and not os.path.exists(f"{g.dir}/bad"), "a baseline of a bad GPU was written")


def interrupted():
    g = Gpus(2)
    p = subprocess.Popen(g.argv("--time", "60"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=g.env)
    while "round 1: fp64" not in p.stdout.readline():
        pass
    time.sleep(0.5)
    begin = time.monotonic()
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=30)
    print(f"Ctrl-C: exit {p.returncode} after {time.monotonic() - begin:.1f} s: {err.strip()}")
    job.check(p.returncode == 3 and "partial: stopped by a signal" in out and "no verdict" in err, f"{out}{err}")
    job.check("passed" not in out, f"a partial run says passed: {out}")
    p = Gpus(1).run("--only", "memory", "--time", "0.1")
    job.check(p.returncode == 0 and "partial: not all memory patterns" in p.stdout, f"time cut it: {p.stdout}")


def measured(path):
    with open(path) as f:
        return [x for x in map(json.loads, f) if x["type"] == "measured"]


def resumed():
    g = Gpus(2)
    path = f"{g.dir}/log"
    expect("a log", g.run("--only", "bf16,fp16", "--time", "1", "--log", path), 0)
    n = len(measured(path))
    expect("the same log again", g.run(*ONE, "--force", "--log", path), 2, path, "--resume")
    with open(path, "a") as f:
        f.write('{"type":"measured","elap')  # the machine went down
    status, by, err = g.lines("--only", "bf16,fp16", "--time", "3", "--force", "--log", path, "--resume")
    job.check(status == 0 and n == 4 and len(measured(path)) == 8, f"exit {status}, {n}, {measured(path)} {err}")
    took = (by["end"][0]["t_ns"] - by["begin"][0]["t_ns"]) / 1e9
    print(f"resumed: {took:.1f} s more, {by['end'][0]['elapsed_s']:.1f} s in all")
    job.check(1 < took < 2.9 and by["end"][0]["elapsed_s"] >= 2.8, f"the rest of 3 s: {took}, {by['end']}")
    expect("nothing left", g.run("--only", "bf16,fp16", "--time", "2", "--force", "--log", path, "--resume"), 2,
           "a longer --time")
    expect("on other GPUs", g.run("--gpus", "0", "--force", "--log", path, "--resume"), 2, "not under test")
    expect("no log", g.run("--force", "--log", f"{g.dir}/none", "--resume"), 2, f"{g.dir}/none")
    # a fault of the first part is a fault of the whole
    path = f"{g.dir}/faults"
    bad = Gpus(2, SIM_GEMM_FLIP="1:5:7:0").run(*ONE, "--log", path)
    job.check(bad.returncode == 1, "no fault")
    status, by, _ = g.lines("--only", "bf16", "--time", "1.5", "--force", "--log", path, "--resume")
    job.check(status == 1 and [v["passed"] for v in by["verdict"]] == [True, False], f"{by['verdict']}")


def terminal():
    g = Gpus(2)
    pid, fd = pty.fork()
    if not pid:
        os.execve(job.RANKTRACE, g.argv("--only", "bf16", "--time", "2"), g.env)
    out = b""
    while True:
        try:
            got = os.read(fd, 65536)
        except OSError:
            break
        if not got:
            break
        out += got
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    bar = re.compile(rb"\[#*\.*\] +\d+ % bf16 .*GPU 0 [\d.]+ TFLOP/s 62 C \d+ W")
    bars = [line for line in out.split(b"\r") if bar.search(line)]
    print(f"terminal: exit {status}, {len(bars)} bars, the last: {bars[-1].decode() if bars else ''}")
    job.check(status == 0 and len(bars) >= 2, out.decode())


def stalled():
    p = Gpus(2, SIM_GEMM_NS="1000000000000").run(*ONE)
    job.check(p.returncode == 1 and "has not ended for 30 s" in p.stdout, f"exit {p.returncode}: {p.stdout}")


cases = [libraries, busy, usage, baseline, interrupted, resumed, terminal]
for case in cases + [stalled] * job.LONG:
    case()
