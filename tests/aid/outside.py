# SPDX-License-Identifier: Apache-2.0
"""A simulated job that runs by itself, and a session (record, watch) that comes later: who is named, and how soon."""
import json
import os
import signal
import subprocess
import threading
import time

import autopsies
import job


class Session:
    """ranktrace record or watch --json on a job that runs already; records, and replays to the same findings."""

    def __init__(self, a, command, *args, pids=()):
        self.rtr, self.errors = f"{a.dir}/session.rtr", open(f"{a.dir}/session.stderr", "w+")
        self.trace = f"{a.dir}/session.pftrace"
        self.findings, self.cond = [], threading.Condition()
        self.begin_ns = time.monotonic_ns()
        argv = [job.RANKTRACE, command, "-v", "--json", "--fail-on=warning", "-o", self.rtr, "-o", self.trace,
                *(f"--pid={pid}" for pid in pids or [a.process.pid]), *map(str, args)]
        # not to the host's own directory
        argv += [f"--flight={a.dir}/flight", f"--phases={a.dir}/phases"] if command == "watch" else []
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        env=dict(os.environ, RANKTRACE_RUN_DIR=f"{a.dir}/run"))
        job.jobs.append(self)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.cond:
                self.findings.append(json.loads(line))
                self.cond.notify_all()

    def wait(self, timeout, **fields):
        """First finding line whose fields are as given; None without an answer."""
        return self.wait_for(lambda f: all(f.get(k) == v for k, v in fields.items()), timeout)

    def wait_for(self, is_meant, timeout):
        """First finding line of which that is true; None without an answer."""
        end = time.monotonic() + timeout
        with self.cond:
            while time.monotonic() < end:
                for f in self.findings:
                    if is_meant(f):
                        return f
                if self.process.poll() is not None:
                    return None
                self.cond.wait(0.2)
        return None

    def stderr(self):
        with open(self.errors.name) as f:
            return f.read()

    def stop(self, with_signal=signal.SIGTERM):
        """The session's exit code; its recording gives the live findings exactly."""
        self.process.send_signal(with_signal)
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            job.fail(f"the session did not end on {with_signal.name}: {self.stderr()}")
        self.reader.join(10)
        out = subprocess.run([job.RANKTRACE, "replay", "-q", "--json", self.rtr], capture_output=True, text=True)
        again = [json.loads(line) for line in out.stdout.splitlines()]
        job.check(again == self.findings, f"replay differs from the live run:\n{self.findings}\n{again}\n{out.stderr}")
        return code

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def others_of(self, pid, ignore=("observation", "lost_events", "slow_step")):
        """Findings that are nobody's consequence and name another process."""
        last = {f["id"]: f for f in self.findings}
        return [f for f in last.values() if not f["caused_by"] and f["kind"] not in ignore and set(f["pids"]) != {pid}]

    def hangs(self):
        return [f for f in self.findings if f["kind"] == "hang" and f["phase"] == "open"]

    def others(self, rank, ignore=("observation", "lost_events", "slow_step")):
        """Findings that are nobody's consequence and name somebody else."""
        last = {f["id"]: f for f in self.findings}
        return [f for f in last.values() if not f["caused_by"] and f["kind"] not in ignore and f["ranks"] != [rank]]


def check_rank(s, f, rank, hang_class):
    job.check(f, f"no hang found; findings: {s.findings}\n{s.stderr()}")
    job.check(f["ranks"] == [rank], f"named {f['ranks']} instead of [{rank}]: {f}")
    job.check(f["class"] == hang_class, f"class {f['class']} instead of {hang_class}: {f}")


def places(f):
    """Where it lacks: the named collective, then those that it may be as well."""
    more = (x.split("#") for x in f["evidence"].get("comm_one_of", "").split(",") if x)
    return [(f["comm"], f["seq"])] + [(c, int(n)) for c, n in more]


def check_lacking(a, f, rank):
    """A place named is one that the rank did not enter and a peer did."""
    job.check(any(a.peers_entered(*p, rank) for p in places(f)),
              f"{f['op']} #{f['seq']} of {f['comm']} was entered by all: {f}")


def first_wait_ns(a, f):
    """When the first peer entered what the rank lacks: by the job's own log."""
    ops = [o["t_ns"] for o in job.lines(a.ops_log) if (o["comm"], o["seq"]) in places(f) and o["op"] in job.COUNTED]
    job.check(ops, f"nobody entered {f['op']} #{f['seq']} of {f['comm']}")
    return min(ops)
