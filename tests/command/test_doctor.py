# SPDX-License-Identifier: Apache-2.0
"""ranktrace doctor: every check of its table has a line, as text and as JSON; its exit code is the worst of them; what
is missing has a cause and a remedy, as root and as nobody; a driver that does not answer costs three seconds; a job
that runs shows its libraries."""
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job

ROOM = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
RANKTRACE = os.path.abspath(job.RANKTRACE)
CODES = {"ok": 0, "limited": 1, "missing": 3}
NVML = "int nvmlInit_v2(void) { %s return 0; }\nint nvmlDeviceGetCount_v2(unsigned *n) { *n = 8; return 0; }\n"


def run(*args, prefix=(), **env):
    out = subprocess.run([*prefix, RANKTRACE, "doctor", *args], capture_output=True, text=True, timeout=120,
                         env={**os.environ, **env})
    job.check(not out.stderr, f"{args} {env}: {out.stderr}")
    return out.returncode, out.stdout


def checks(prefix=(), **env):
    """{check: its line}"""
    code, out = run("--json", prefix=prefix, **env)
    found = {one["check"]: one for one in map(json.loads, out.splitlines())}
    for one in found.values():
        job.check(set(one) == {"check", "status", "for", "found", "cause", "remedy"} and one["for"], one)
        job.check((one["status"] == "ok") == (not one["cause"]), f"a cause, and only where something is missing: {one}")
        job.check(one["status"] != "ok" or one["found"], f"nothing said: {one}")
    worst = max((one["status"] for one in found.values()), key=lambda s: CODES[s])
    job.check(code == CODES[worst], f"exit {code}, and the worst is {worst}")
    return found


def named():
    with open(f"{ROOM}/user/doctor/checks.def") as f:
        return re.findall(r'^CHECK\(\w+, "([^"]+)"', f.read(), re.M)


def library(room, name, sleeps):
    os.mkdir(f"{room}/{name}")
    subprocess.run(["gcc", "-shared", "-x", "c", "-", "-o", f"{room}/{name}/libnvidia-ml.so.1"], check=True, text=True,
                   input="unsigned sleep(unsigned);\n" + NVML % sleeps)
    return f"{room}/{name}"


def check_root():
    found = checks()
    job.check(list(found) == named(), f"{list(found)} are not the table's")
    for name in ("namespaces", "BTF", "tracing rights", "reading rights", "BPF programs", "kernel log"):
        job.check(found[name]["status"] == "ok", found[name])
    job.check(int(found["BPF programs"]["found"].split()[0]) > 20, found["BPF programs"])
    text = run()[1]
    lines = re.findall(r"^(?:ok|limited|missing) +(\S.{0,18}?)  ", text, re.M)
    job.check(lines == named(), f"{lines}\n{text}")
    print(f"  root: {len(found)} checks")


def check_lacks():
    one = checks(RANKTRACE_KERNEL_LACKS="uprobe-multi")["kernel"]
    job.check(one["status"] == "limited" and "uprobe-multi" in one["cause"] and "bystanders" in one["cause"], one)
    code, out = run("--json", RANKTRACE_BTF="/nowhere")
    one = next(o for o in map(json.loads, out.splitlines()) if o["check"] == "BTF")
    job.check(code == 3 and one["status"] == "missing" and "/nowhere" in one["cause"], f"{code} {one}")


def check_nobody():
    found = checks(NOBODY)
    job.check(found["tracing rights"]["status"] == "missing" and "CAP_BPF" in found["tracing rights"]["cause"], found)
    job.check(found["reading rights"]["status"] == "limited", found["reading rights"])
    job.check(found["kernel"]["status"] == "ok" and "lacks" in found["kernel"]["found"], found["kernel"])
    job.check(found["BPF programs"]["status"] == "missing", found["BPF programs"])
    job.check("may be read" in found["NCCL"]["found"], f"what cannot be read is not there: {found['NCCL']}")


def check_gpus(room):
    version = f"{room}/version"
    with open(version, "w") as f:
        f.write("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159\nGCC version: 12\n")
    found = checks(RANKTRACE_NVIDIA_PROC=version, LD_LIBRARY_PATH=library(room, "well", ""))
    job.check("580.159" in found["GPU driver"]["found"] and found["NVML"]["found"] == "8 GPUs", found["NVML"])
    began = time.monotonic()
    one = checks(LD_LIBRARY_PATH=library(room, "silent", "sleep(60);"))["NVML"]
    took = time.monotonic() - began
    job.check(one["status"] == "limited" and "did not answer" in one["cause"] and took < 20, f"{one} in {took:.1f} s")


def check_job():
    p = subprocess.Popen([RANKTRACE, "sim", "job", "--ranks", "2", "--steps", "200", "--step-ms", "50"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found, end = {}, time.monotonic() + 20
    while time.monotonic() < end and p.poll() is None:
        found = checks()
        if " processes: " in found["NCCL"]["found"]:
            break
    p.terminate()
    p.wait()
    job.check("libnccl" in found["NCCL"]["found"] and "libcuda" in found["CUDA"]["found"], found["NCCL"])
    job.check(found["training processes"]["found"].isdigit(), found["training processes"])


def main():
    job.need_root()
    check_root()
    check_lacks()
    check_nobody()
    with tempfile.TemporaryDirectory(prefix="ranktrace-doctor-") as room:
        check_gpus(room)
    check_job()
    print("  features taken away, nobody, a driver that is well and one that is silent, a job")


if __name__ == "__main__":
    main()
