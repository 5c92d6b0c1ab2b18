# SPDX-License-Identifier: Apache-2.0
"""Signals at every moment of the tracer's start: SIGUSR1 asks for progress and ends nobody, the job's own signals are
as they were, and a tracer that is killed before it let its command go does not leave it running untraced."""
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job

SHOW = ("import signal; print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "
        "signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL)")


def spawn(*command):
    return subprocess.Popen([job.RANKTRACE, "record", "--exit-status=command", "--", *command], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return f.read().split()


def is_held(pid):
    with open(f"/proc/{pid}/status") as f:
        text = f.read()
    return "Name:\tranktrace\n" in text and int(text.split("SigBlk:")[1].split()[0], 16) >> signal.SIGUSR1 - 1 & 1


def wait_held(p):
    """Its first act, before it forks its helper."""
    while True:
        begun = children(p.pid)
        if is_held(p.pid):
            return
        job.check(not begun, "SIGUSR1 would still end a tracer that has its helper already")
        job.check(p.poll() is None, "the tracer ended")


job.need_root()
rng, _ = job.seed()
for delay in [0, 0.002, 0.01, 0.05] + [rng.uniform(0, 0.5) for _ in range(4)]:
    p = spawn("sleep", "1")
    wait_held(p)
    time.sleep(delay)
    p.send_signal(signal.SIGUSR1)
    err = p.communicate(timeout=60)[1]
    job.check(p.returncode == 0, f"SIGUSR1 {delay:.3f} s after the start: exit {p.returncode}: {err}")
    job.check("processes," in err and " lost" in err, f"no progress line: {err}")
print("SIGUSR1 at 8 moments of the start: answered")

out = spawn("python3", "-c", SHOW).communicate(timeout=60)[0]
job.check(out.split("\n")[0].endswith("[] True"), f"signals of the command: {out}")

with tempfile.TemporaryDirectory(prefix="ranktrace-early-") as d:
    for _ in range(5):
        p = spawn("touch", f"{d}/ran")
        while p.poll() is None and len(children(p.pid)) < 3:  # the readers' helpers, then the command
            time.sleep(0.0005)
        p.kill()
        p.wait()
    time.sleep(0.5)
    job.check(not os.path.exists(f"{d}/ran"), "a command ran though its tracer was killed before it let it go")
print("killed before the command was let go, 5 times: it never ran")
