# SPDX-License-Identifier: Apache-2.0
"""The helpers of watch have no CPU for some seconds, frozen by a cgroup, while the driver logs an XID: it is found as
soon as they run again, once, and one that is logged afterwards, too. A long wait is in the daemon's log, with its
cause."""
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
sys.path.insert(1, sys.path[0] + "/../hostile")
import cgroups
import hostile
import job
import test_privileges

HELPERS = ("ranktrace-zyg", "ranktrace-parse")
SHORT_S, LONG_S = 1.5, 12  # a wait is said after 10 s
LATE_S = 30  # of a busy machine, for a finding
LINE = "4,{n},{n}000000,-;NVRM: Xid (PCI:0000:3b:00): {xid}, pid=1, name=python, of a test\n"


def xids(daemon, number):
    opened = [f for f in daemon.findings() if f["kind"] == "xid" and f["phase"] == "open"]
    return [f for f in opened if f["evidence"]["xid"] == number]


def found(daemon, number):
    end = time.monotonic() + LATE_S
    while not xids(daemon, number) and time.monotonic() < end:
        time.sleep(0.1)
    return len(xids(daemon, number))


def write(log, n, number):
    with open(log, "a") as f:
        f.write(LINE.format(n=n, xid=number))


def without_helpers(daemon, group, log, n, number, seconds):
    """Those that are there, and what a zygote makes meanwhile."""
    helpers = [p for p, name in test_privileges.family(daemon.process.pid).items() if name in HELPERS]
    job.check(helpers, "no helper is there: this test would prove nothing")
    for pid in helpers:
        try:
            group.add(pid)
        except OSError:  # it ended meanwhile
            pass
    group.freeze(True)
    write(log, n, number)
    time.sleep(seconds)
    before = len(xids(daemon, number))
    group.freeze(False)
    job.check(not before, "the helpers ran all the while: this test would prove nothing")
    job.check(found(daemon, number) == 1, f"XID {number}, logged while helpers had no CPU for {seconds} s, is lost:\n"
              f"{daemon.stderr()}")


def main():
    job.need_root()
    why_not = cgroups.why_not("freezer")
    if why_not:
        job.skip(why_not)
    log = f"{hostile.place()}/kmsg"
    with open(log, "w"):
        pass
    daemon = hostile.Daemon("--job", "none-such", "--no-raise", "--flight=no", f"--phases={log}.phases",
                            command="watch", env={"RANKTRACE_KMSG": log}).wait(lambda line: True)
    group = cgroups.Group("freezer")
    time.sleep(1)
    write(log, 1, 48)
    job.check(found(daemon, 48) == 1, f"no finding with helpers that run: this test would prove nothing\n"
              f"{daemon.stderr()}")
    without_helpers(daemon, group, log, 2, 79, SHORT_S)
    without_helpers(daemon, group, log, 3, 62, LONG_S)
    write(log, 4, 95)
    job.check(found(daemon, 95) == 1, f"nothing is found afterwards:\n{daemon.stderr()}")
    daemon.stop()
    text = daemon.stderr()
    job.check("kernel log: its lines wait for" in text and "give ranktrace CPU time" in text and
              "its lines are read again" in text, f"the long wait is not said:\n{text}")
    job.check("CAP_SYSLOG" not in text and "dropped" not in text, f"a wrong cause, or a loss:\n{text}")
    print(f"  XIDs of {SHORT_S} s and {LONG_S} s without helpers are found afterwards, once; the long wait is said")


main()
