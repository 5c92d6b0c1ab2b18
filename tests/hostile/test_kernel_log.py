# SPDX-License-Identifier: Apache-2.0
"""Nobody runs and crashes processes that call themselves what the driver logs: the kernel's lines about them, and lines
written into the log from outside, are no XID. One line of the driver's is."""
import os
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import hostile
import job

CRASH = ("import ctypes, os, sys\n"
         "for name in sys.argv[1:]:\n"
         "    if not os.fork():\n"
         "        ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)\n"
         "        ctypes.string_at(0)\n"
         "    os.wait()\n"
         "print('ready', flush=True)\n")
NAMES = ("NVRM: Xid(a):79", "NVRM: Xid (PCI:", "nvidia-nvswitch", "0): SXid(b): 79")
OURS = "4,{n},{n},-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python, GPU has fallen off the bus.\n"


def xids(daemon):
    return [f for f in daemon.findings() if f["kind"] == "xid"]


def hostile_lines():
    for i, name in enumerate(NAMES):
        yield f"6,{i},{i},-;{name}[4711]: segfault at 0 ip 0 sp 0 error 4 in python3[0+1] likely on CPU 0\n"
        yield f"6,{i},{i},-;potentially unexpected fatal signal 11.\n"
    for facility in (1, 3, 17):  # what the kernel makes of a line that comes by a write
        yield OURS.format(n=9).replace("4,", f"{facility << 3 | 4},", 1)
    yield OURS.format(n=10).replace(";NVRM", ";x: NVRM", 1)


def main():
    job.need_root()
    rng, _ = job.seed()
    log = f"{hostile.place()}/kmsg"
    with open(log, "w"):
        pass
    victim = hostile.Victim(rng, steps=700)
    victim.wait_begun()
    daemon = hostile.Daemon(env={"RANKTRACE_KMSG": log}).wait()
    real = hostile.Daemon()  # the kernel's own log, whatever of it can be read here
    time.sleep(1)
    hostile.python(CRASH, *NAMES).ready()
    with open(log, "a") as f:
        f.writelines(hostile_lines())
    time.sleep(3)
    for d in (daemon, real):
        job.check(not xids(d), f"what nobody says became {xids(d)}")
    with open(log, "a") as f:
        f.write(OURS.format(n=99))
    end = time.monotonic() + 10
    while not xids(daemon) and time.monotonic() < end:
        time.sleep(0.1)
    job.check(len(xids(daemon)) == 1, "the driver's own line is no finding: this test would prove nothing")
    victim.end()
    real.stop()
    daemon.stop()
    job.check(not xids(real), f"what nobody says became {xids(real)}")
    for d in (daemon, real):
        hostile.check_no_finding(d, victim.pids())
        hostile.check_gap(d)
    print("  no XID by names, by other facilities, from the middle of a line; one by the driver's line")


main()
