# SPDX-License-Identifier: Apache-2.0
"""An NVML that fails: a library that is none, that kills its process, that never returns. An autopsy names the rank
that hangs all the same, in time, and leaves no process behind; watch says what it can without GPUs."""
import glob
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import faults
import job
import outside

LATE_S = 1.0  # an autopsy may take that much longer than one beside no NVML at all

LIBRARY = """
#include <stdlib.h>
#include <unistd.h>
int nvmlInit_v2(void) { %s; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *)1; return 0; }
"""
FAILS = {"dies": "abort()", "hangs": "for (;;) pause()"}


def library(folder, how):
    path = f"{folder}/{how}.so"
    with open(path + ".c", "w") as f:
        f.write("no library" if how == "none" else LIBRARY % FAILS[how])
    if how == "none":
        os.rename(path + ".c", path)
    else:
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-w", "-o", path, path + ".c"], check=True)
    return path


def children(path):
    """Processes that have this library as their argument."""
    found = []
    for name in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(name, "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if words[0] == b"ranktrace-nvml" and path.encode() in words:
            found.append(name)
    return found


def check_gone(path):
    end = time.monotonic() + 10
    while children(path) and time.monotonic() < end:
        time.sleep(0.1)
    job.check(not children(path), f"left behind: {children(path)}")


def autopsy(a, rank, path):
    os.environ["RANKTRACE_NVML"] = path
    found = [f for f in a.run_json() if f["kind"] == "hang"]
    job.check(a.code == 1 and [f["ranks"] for f in found] == [[rank]], f"exit {a.code}: {found}\n{a.err}")
    check_gone(path)
    return a.wall_s


def watch(a, rank, path):
    os.environ["RANKTRACE_NVML"] = path
    s = outside.Session(a, "watch", "--no-raise")
    h = s.wait(60, kind="hang", phase="open")
    outside.check_rank(s, h, rank, "missing_enter")
    s.stop()
    wrong = s.others(rank, ignore=("observation", "lost_events", "slow_step", "gpu_health"))
    job.check(not wrong, f"also: {wrong}")
    check_gone(path)


def main():
    job.need_root()
    rng, _ = job.seed()
    rank, step, number = faults.draw(rng, first=25, last=60)
    folder = tempfile.mkdtemp(prefix="ranktrace-nvml-")
    job.dirs.append(folder)
    with autopsies.Autopsy(["--ranks", 8, "--steps", 2000, "--step-ms", 50, "--seed", number, "--fault",
                            f"hang:rank={rank},step={step}"]) as a:
        a.wait_fault("hang")
        a.settle()
        usual_s = autopsy(a, rank, "/nowhere/libnvidia-ml.so.1")
        for how in ("none", *FAILS):
            took_s = autopsy(a, rank, library(folder, how))
            print(f"  a library that {how}: {took_s:.2f} s, without one {usual_s:.2f} s")
            job.check(took_s <= usual_s + job.bar(LATE_S), f"{how}: {took_s:.2f} s, usual {usual_s:.2f} s")
        watch(a, rank, f"{folder}/{rng.choice(list(FAILS))}.so")


if __name__ == "__main__":
    main()
