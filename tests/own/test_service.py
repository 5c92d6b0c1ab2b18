# SPDX-License-Identifier: Apache-2.0
"""`watch` as a service: it tells the manager (sd_notify) that it is ready, has a turn, reloads, stops. A loop that is
stuck says nothing any more, so that the manager restarts it; and one that lost all that makes its helpers ends, with an
error, for the same."""
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
sys.path.insert(1, sys.path[0] + "/../hostile")
import job
import test_privileges

WATCHDOG_S = 1.5
INTERNAL = 4


class Manager:
    def __init__(self, where):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"{where}/notify")

    def heard(self, seconds, until=None):
        """What was said within that time, or until a line is."""
        end, lines = time.monotonic() + seconds, []
        while time.monotonic() < end and until not in lines:
            self.socket.settimeout(max(0.01, end - time.monotonic()))
            try:
                lines += self.socket.recv(4096).decode().split("\n")
            except TimeoutError:
                pass
        return lines


class Watch:
    def __init__(self, where):
        self.err = open(f"{where}/stderr", "w+")
        env = dict(os.environ, NOTIFY_SOCKET=f"{where}/notify", WATCHDOG_USEC=str(int(WATCHDOG_S * 1e6)),
                   RANKTRACE_RUN_DIR=f"{where}/run")
        self.process = subprocess.Popen([job.RANKTRACE, "watch", "--job", "none-of-this-name", "--flight=no",
                                         "--phases=no"], stdout=subprocess.DEVNULL, stderr=self.err, env=env,
                                        start_new_session=True)
        job.jobs.append(self)

    def kill(self):
        self.process.kill()

    def said(self):
        self.err.seek(0)
        return self.err.read()


def zygotes(watch):
    return [p for p, name in test_privileges.of_session(watch.process.pid).items() if name == "ranktrace-zyg"]


def lost_helpers(where, manager):
    """One is replaced, and both are the end."""
    watch = Watch(where)
    job.check("READY=1" in manager.heard(30, "READY=1"), "not ready within 30 s")
    first = zygotes(watch)
    os.kill(first[0], signal.SIGKILL)
    time.sleep(3)
    job.check(watch.process.poll() is None, f"one zygote was lost, and it ended: {watch.said()}")
    job.check(first[0] not in zygotes(watch) and len(zygotes(watch)) == len(first), f"{first}, then {zygotes(watch)}")
    for pid in zygotes(watch):
        os.kill(pid, signal.SIGKILL)
    code = watch.process.wait(30)
    job.check(code == INTERNAL, f"exit code {code}: its manager would not restart it: {watch.said()}")
    job.check("no helper process is left" in watch.said(), f"why it ends is not said: {watch.said()}")


def main():
    job.need_root()
    where = tempfile.mkdtemp(prefix="ranktrace-service-")
    job.dirs.append(where)
    manager = Manager(where)
    watch = Watch(where)
    p = watch.process
    job.check("READY=1" in manager.heard(30, "READY=1"), "not ready within 30 s")
    turns = manager.heard(4 * WATCHDOG_S).count("WATCHDOG=1")
    job.check(turns >= 4, f"{turns} turns in 4 times the limit: it would be restarted")
    p.send_signal(signal.SIGHUP)
    told = manager.heard(10, "READY=1")
    job.check("RELOADING=1" in told and told[-1] == "READY=1" and any(t.startswith("MONOTONIC_USEC=") for t in told),
              f"a reload says {told}")
    p.send_signal(signal.SIGSTOP)
    time.sleep(0.1)
    manager.heard(0.1)
    silent = manager.heard(2 * WATCHDOG_S)
    job.check(not silent, f"a stuck loop says {silent}")
    p.send_signal(signal.SIGCONT)
    job.check("WATCHDOG=1" in manager.heard(10, "WATCHDOG=1"), "no turn after SIGCONT")
    p.send_signal(signal.SIGTERM)
    job.check("STOPPING=1" in manager.heard(20, "STOPPING=1"), "its end is not said")
    job.check(p.wait(30) == 0, "exit code is not 0")
    lost_helpers(where, manager)
    print(f"  {turns} turns in {4 * WATCHDOG_S:.0f} s, a limit of {WATCHDOG_S} s; none while it was stopped")


main()
