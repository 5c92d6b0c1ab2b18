# SPDX-License-Identifier: Apache-2.0
"""A simulated job under the real tracer, for the end-to-end tests: start, wait for findings, compare with the truth.

The truth is the job's own logs (operations, injected faults), which no part of the tracer reads. Every random draw is
printed, so that a failure can be run again: SEED=n python3 tests/ROOM/test_x.py.
"""
import atexit
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

O = os.environ.get("O", "build")
RANKTRACE = os.path.join(O, "ranktrace")
LONG = bool(os.environ.get("LONG"))  # make test-long: the bars themselves are held
SANITIZED = bool(os.environ.get("SANITIZED"))  # tests/sanitize.sh
TRIALS = int(os.environ.get("TRIALS", "3" if LONG else "1"))
if not LONG:  # ranks start as slowly as a busy machine attaches to them
    os.environ.setdefault("SIM_CUDA_INIT_MS", "1200")
NO_BUDGET = ("--budget=no", "--budget-node=no")  # every operation is to be seen, whatever a hit costs here
COUNTED = {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"}


def seed():
    """Everything that a test draws comes of this one number, which it prints first."""
    value = int(os.environ.setdefault("SEED", str(random.SystemRandom().randrange(1 << 30))))
    print(f"SEED={value}", flush=True)
    return random.Random(value), value


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def need_root():
    if os.geteuid():
        skip("needs root (BPF)")


dirs, failed, jobs = [], [], []
inherited = []  # files that the ranks of every job started from here on have open


@atexit.register
def clean():
    """No job outlives its test. What a passed test recorded goes; what a failed one did is kept for a look."""
    for j in jobs:
        j.kill()
    if not failed and not hasattr(sys, "last_value"):
        for d in dirs:
            shutil.rmtree(d, ignore_errors=True)


def fail(why):
    failed.append(why)
    print(f"FAILED: {why}")
    sys.exit(1)


def disk_fill(where):
    """All that the file system there has room for, in where/filler."""
    with open(f"{where}/filler", "wb", buffering=0) as f:
        try:
            while True:
                f.write(bytes(4096))
        except OSError:
            pass


def check(condition, why):
    if not condition:
        fail(why)


def blame(condition, why):
    """The same where what is wrong is that somebody is named who has nothing to do with it: matrix.py counts these
    apart."""
    check(condition, f"blamed: {why}")


def bar(strict_s):
    """A limit on time that no document sets. It holds where the machine is the test's own (make test-long, matrix.py);
    in `make test`, beside other tests on however few CPUs, slowness is no fault: what never comes, or out of order, is.
    The limits of the fault matrix (docs/verdicts.md) hold everywhere: a test that misses one runs once more, alone."""
    return strict_s if LONG else 2 * strict_s + 2


def wait_session(tracer, log, ready, timeout=30):
    """Until the session's progress line, for which SIGUSR1 asks, is as it should be: a busy machine attaches slowly."""
    end = time.monotonic() + timeout
    while time.monotonic() < end and tracer.poll() is None:
        with open(f"/proc/{tracer.pid}/status") as f:
            blocked = int(next(line for line in f if line.startswith("SigBlk:")).split()[1], 16)
        if blocked >> signal.SIGUSR1 - 1 & 1:  # its first act: from then on the signal does not end it
            tracer.send_signal(signal.SIGUSR1)
        time.sleep(0.1)
        with open(log) as f:
            if any(ready(line) for line in f if " processes, " in line and " probes, " in line):
                return
    with open(log) as f:
        fail(f"the session is not ready within {timeout} s: {f.read()}")


def has_probes(line):
    return ", 0 probes, " not in line


def result(case, late_s):
    """For matrix.py: the verdict of one case, right, after so long."""
    print("RESULT " + json.dumps({"case": case, "late_s": round(late_s, 3)}), flush=True)


def compiled(name):
    """A C program of tests/aid; in a folder that everybody may read."""
    path = tempfile.mkdtemp(prefix=f"ranktrace-{name}-")
    os.chmod(path, 0o755)
    dirs.append(path)
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.c")
    out = subprocess.run(["cc", "-O1", "-w", "-o", f"{path}/{name}", source, "-ldl", "-lpthread"], capture_output=True,
                         text=True)
    if out.returncode:
        skip(f"no C compiler here: {out.stderr}")
    return f"{path}/{name}"


class Log:
    """A log that is only added to, and is asked for many times a second: each whole line is read once."""

    def __init__(self, path):
        self.path, self.known = path, 0

    def more(self):
        """The lines that came since."""
        try:
            with open(self.path, "rb") as f:
                f.seek(self.known)
                text = f.read()
        except FileNotFoundError:
            return []
        whole = text[:text.rfind(b"\n") + 1]
        self.known += len(whole)
        return [json.loads(line) for line in whole.split(b"\n")[:-1]]


def lines(path):
    """Of a log that may be written meanwhile: what one read gives, whose last line may be a part of one."""
    try:
        with open(path) as f:
            return [json.loads(line) for line in f.read().split("\n")[:-1]]
    except FileNotFoundError:
        return []


class Job:
    """ranktrace record --json ... -- ranktrace sim job ..., or the two apart: the tracer comes attach_after seconds
    after every rank made its first call."""

    def __init__(self, sim_args, record_args=(), attach_after=None, name="job"):
        self.dir = tempfile.mkdtemp(prefix=f"ranktrace-{name}-")
        dirs.append(self.dir)
        jobs.append(self)
        self.process = None
        self.rtr, self.trace = f"{self.dir}/job.rtr", f"{self.dir}/job.pftrace"
        self.ops_log, self.fault_log = f"{self.dir}/ops.jsonl", f"{self.dir}/faults.jsonl"
        self.ranks = int(sim_args[list(sim_args).index("--ranks") + 1])
        self.sim = [RANKTRACE, "sim", "job", "--log", self.ops_log, "--fault-log", self.fault_log, *map(str, sim_args)]
        # A test ends its job at the finding, before a stall could last long enough to be a hang. A hit costs three to
        # ten times of hardware's on test machines, and simulated steps are short: a budget of as many times.
        self.record_args = [RANKTRACE, "record", "-v", "--json", "--fail-on=warning", "--budget=5", "-o", self.rtr,
                            "-o", self.trace, *map(str, record_args)]
        self.findings, self.cond = [], threading.Condition()
        self.sim_process = None
        self.err = open(f"{self.dir}/stderr", "w+")
        print(" ".join(self.sim[1:]), flush=True)
        if attach_after is None:
            self.process = self.spawn(self.record_args + ["--"] + self.sim)
        else:
            self.sim_process = subprocess.Popen(self.sim, stderr=self.err)
            self.wait_begun(attach_after)
            self.attach_ns = time.monotonic_ns()
            self.process = self.spawn(self.record_args + ["--pid", str(self.sim_process.pid)])
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def spawn(self, argv):
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=self.err, text=True, pass_fds=inherited)

    def read(self):
        for line in self.process.stdout:
            with self.cond:
                self.findings.append(json.loads(line))
                self.cond.notify_all()
        with self.cond:
            self.cond.notify_all()

    def wait_begun(self, seconds=0.0, timeout=60):
        """Every rank has called something, the last of them so many seconds ago: by the job's own log."""
        end, first = time.monotonic() + timeout, {}
        while len(first) < self.ranks:
            check(time.monotonic() < end, f"only ranks {sorted(first)} begin within {timeout} s\n{self.stderr()}")
            time.sleep(0.1)
            first = {}
            for o in lines(self.ops_log):
                first.setdefault(o["rank"], o["t_ns"])
        time.sleep(max(0.0, seconds - (time.monotonic_ns() - max(first.values())) / 1e9))

    def wait_finding(self, timeout, **fields):
        """First finding line whose fields are as given; None without an answer."""
        return self.wait_for(lambda: next((f for f in self.findings
                                           if all(f.get(k) == v for k, v in fields.items())), None), timeout)

    def wait_for(self, match, timeout):
        """What match() gives of the findings, which may change at any time; None without an answer."""
        end = time.monotonic() + timeout
        with self.cond:
            while not match() and time.monotonic() < end and self.process.poll() is None:
                self.cond.wait(0.2)
            return match()

    def wait_fault(self, timeout, name):
        """The job's own word that the fault took effect."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            for f in lines(self.fault_log):
                if f["fault"] == name and f.get("phase", "begin") == "begin":
                    return f
            time.sleep(0.05)
        return None

    def end(self, timeout=60):
        """The job runs to its end; the tracer's exit code."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.stop()
            fail(f"the session did not end within {timeout} s")
        self.finish()
        return code

    def stop(self):
        """Ends the session (and with it the job) now; the tracer's exit code."""
        self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            fail("the tracer did not end on SIGINT")
        self.finish()
        return code

    def finish(self):
        self.reader.join(10)
        if self.sim_process:
            self.sim_process.terminate()
            try:
                self.sim_process.wait(20)
            except subprocess.TimeoutExpired:
                self.sim_process.kill()
                self.sim_process.wait()
        self.err.flush()

    def kill(self):
        for p in filter(None, (self.process, self.sim_process)):
            if p.poll() is None:
                p.send_signal(signal.SIGINT)  # the tracer takes the job that it started along
                try:
                    p.wait(5)
                except subprocess.TimeoutExpired:
                    p.kill()

    def stderr(self):
        with open(f"{self.dir}/stderr") as f:
            return f.read()

    def replay(self, *args):
        out = subprocess.run([RANKTRACE, "replay", "-q", *args, self.rtr], capture_output=True, text=True)
        check(out.returncode in (0, 1), f"replay failed: {out.stderr}")
        return [json.loads(line) for line in out.stdout.splitlines()]

    def check_replay(self):
        """A replay gives the live run's findings exactly."""
        again = self.replay("--json")
        check(again == self.findings, f"replay differs from the live run:\n{self.findings}\n{again}")

    def opened(self):
        return [f for f in self.findings if f["phase"] == "open"]

    def roots(self, ignore=("observation", "lost_events", "slow_step")):
        """Findings that are nobody's consequence, by their last word."""
        last = {f["id"]: f for f in self.findings}
        return [f for f in last.values() if not f["caused_by"] and f["kind"] not in ignore]

    def longest_gap_s(self):
        text = self.stderr()
        at = text.rindex("longest gap between two polls ")
        return float(text[at:].split()[5])


def op_key(o):
    space = "collective" if o["op"] in COUNTED else o["op"]
    if o.get("graph"):
        space = "graph " + (space if o["op"] in ("Send", "Recv") else "")
    return o["rank"], o["pid"], o["comm"], space, o["peer"], o["seq"], o["op"], o["count"], o["dtype"]


def compare_ops(truth, seen):
    """Multisets of operations: what the job logged and what the tracer saw. Returns (missing, extra)."""
    a, b = collections.Counter(map(op_key, truth)), collections.Counter(map(op_key, seen))
    return list((a - b).elements()), list((b - a).elements())
