# SPDX-License-Identifier: Apache-2.0
"""A cgroup of a test's own, version 1 or 2, that takes memory or CPU time from processes, or freezes them; gone with
the test."""
import os
import time

import job

ROOT = "/sys/fs/cgroup"
V1 = {"memory": "memory.limit_in_bytes", "cpu": "cpu.cfs_quota_us"}
PERIOD_US = 100000
RT_V1, RT_US = "cpu.rt_runtime_us", 10000  # of a second, with CONFIG_RT_GROUP_SCHED
n = 0


def read(path):
    with open(path) as f:
        return f.read()


def write(path, text):
    with open(path, "w") as f:
        f.write(str(text))


class Group:
    """OSError without the controller, or without the right."""

    def __init__(self, controller):
        global n
        n += 1
        base = f"{ROOT}/{controller}" if os.path.exists(f"{ROOT}/{controller}/cgroup.procs") else ROOT
        self.path, self.v1 = f"{base}/ranktrace-test-{os.getpid()}-{n}", base != ROOT
        self.controller = controller
        if not self.v1 and controller != "freezer" and controller not in read(f"{ROOT}/cgroup.subtree_control").split():
            raise OSError(f"no controller '{controller}' in {ROOT}/cgroup.subtree_control")
        os.mkdir(self.path)
        job.jobs.append(self)

    def add(self, pid):
        write(f"{self.path}/cgroup.procs", pid)

    def empty(self):
        """Those in it go back to the root."""
        for pid in read(f"{self.path}/cgroup.procs").split():
            try:
                write(f"{os.path.dirname(self.path)}/cgroup.procs", pid)
            except OSError:  # it ended meanwhile
                pass

    def memory(self, limit_bytes):
        write(f"{self.path}/{V1['memory'] if self.v1 else 'memory.max'}", limit_bytes)

    def cpu(self, cores):
        """None: no limit."""
        quota = int(cores * PERIOD_US) if cores else None
        if self.v1:
            write(f"{self.path}/{V1['cpu']}", quota or -1)
            if os.path.exists(f"{self.path}/{RT_V1}"):  # else no thread of that priority may come in
                write(f"{self.path}/{RT_V1}", RT_US)
        else:
            write(f"{self.path}/cpu.max", f"{quota or 'max'} {PERIOD_US}")

    def freeze(self, frozen):
        if self.v1:
            write(f"{self.path}/freezer.state", "FROZEN" if frozen else "THAWED")
        else:
            write(f"{self.path}/cgroup.freeze", int(frozen))

    def killed(self):
        """How many the kernel killed for memory."""
        text = read(f"{self.path}/{'memory.oom_control' if self.v1 else 'memory.events'}")
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill "))

    def kill(self):
        if self.controller == "freezer":
            self.freeze(False)
        self.empty()
        for _ in range(50):
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.1)


def why_not(controller):
    """None: there are such groups here."""
    try:
        Group(controller).kill()
        job.jobs.pop()
        return None
    except OSError as error:
        return f"no cgroup of {controller} can be made here: {error}"
