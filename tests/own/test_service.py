# SPDX-License-Identifier: Apache-2.0
"""`watch` as a service: it tells the manager (sd_notify) that it is ready, has a turn, reloads, stops. A loop that is
stuck says nothing any more, so that the manager restarts it."""
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job

WATCHDOG_S = 1.5


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


def main():
    job.need_root()
    where = tempfile.mkdtemp(prefix="ranktrace-service-")
    job.dirs.append(where)
    manager = Manager(where)
    env = dict(os.environ, NOTIFY_SOCKET=f"{where}/notify", WATCHDOG_USEC=str(int(WATCHDOG_S * 1e6)),
               RANKTRACE_RUN_DIR=f"{where}/run")
    with open(f"{where}/stderr", "w") as err:
        p = subprocess.Popen([job.RANKTRACE, "watch", "--job", "none-of-this-name", "--flight=no", "--phases=no"],
                             stdout=subprocess.DEVNULL, stderr=err, env=env, start_new_session=True)
    job.jobs.append(type("Watch", (), {"kill": lambda self: p.kill()})())
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
    print(f"  {turns} turns in {4 * WATCHDOG_S:.0f} s, a limit of {WATCHDOG_S} s; none while it was stopped")


main()
