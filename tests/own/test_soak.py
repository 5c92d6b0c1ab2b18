# SPDX-License-Identifier: Apache-2.0
# runs beside few: measures what the sessions take, to which their want of a CPU adds
"""Days in short: `watch` and `record`, both with a flight recorder, over jobs that come and go: ordinary life in one
lane, in the other healthy jobs and jobs with a fault in turns. Each fault is reported once by each session, nothing
else is critical, and what the sessions take stays flat: memory, descriptors, threads, BPF maps, files.
MINUTES=n (make soak): so long; 2.5 by default, too short for memory, which with LONG=1 (5) is judged, too."""
import collections
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import cost
import flights
import job
import lives

MINUTES = float(os.environ.get("MINUTES", "5" if job.LONG else "2.5"))
AFTER_NS = 10_000_000_000
MEMORY_MINUTES = 4  # what ended jobs needed is kept for a minute: the second quarter has to begin after that
RANKS = 4
FAULTS = {"stop": "stopped", "kill": "process_dead", "hang": "missing_enter"}
COMMANDS = {"watch": [], "record": ["--tier", "trace"]}
# Growth from the second quarter to the last one that is no leak: what the jobs of the moment need differs (64 libraries
# of a rank at most, each a descriptor), and malloc() gives back less than it is given.
MORE = {"memory MiB": 6, "descriptors": 64, "threads": 8, "BPF maps": 0, "BPF MiB": 1, "files": 12}


def launcher():
    """The parent of all jobs, whom the sessions follow: starts what it is told to, and says its pid."""
    running = []
    for line in sys.stdin:
        running = [p for p in running if p.poll() is None]
        running.append(subprocess.Popen(json.loads(line), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        print(running[-1].pid, flush=True)
    for p in running:
        p.kill()


class Launcher:
    def __init__(self):
        self.lock = threading.Lock()
        self.process = subprocess.Popen([sys.executable, "-B", __file__, "launcher"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        job.jobs.append(self)

    def start(self, argv):
        with self.lock:
            self.process.stdin.write(json.dumps(argv) + "\n")
            self.process.stdin.flush()
            return int(self.process.stdout.readline())

    def kill(self):
        self.process.stdin.close()
        self.process.wait(10)


def anon_mib(pid):
    """What is its own; what forked workers still share with their parent is counted once."""
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Pss_Anon:")) / 1024


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter as it is read
        return False


class Episode:
    """One simulated job. Its truth is its own logs."""

    def __init__(self, run, number, args, fault=None, rank=None):
        base = f"{run.dir}/job{number}"
        self.ops, self.faults, self.fault, self.rank = job.Log(f"{base}.ops"), f"{base}.faults", fault, rank
        self.known, self.lock = set(), threading.Lock()
        self.begin_ns, self.end_ns = time.monotonic_ns(), None
        fault_args = ["--fault", f"{fault}:rank={rank},step={run.rng.randrange(20, 40)}"] if fault else []
        self.pid = run.launcher.start([job.RANKTRACE, "sim", "job", "--log", self.ops.path, "--fault-log", self.faults,
                                       "--ranks", str(RANKS), "--step-ms", "60", "--seed",
                                       str(run.rng.randrange(1 << 30)), *args, *fault_args])

    def end(self):
        for sig, timeout in ((signal.SIGTERM, 20), (signal.SIGKILL, 5)):
            until = time.monotonic() + timeout
            if is_running(self.pid):
                os.kill(self.pid, sig)
            while is_running(self.pid) and time.monotonic() < until:
                time.sleep(0.1)
        self.end_ns = time.monotonic_ns()

    def is_of(self, f):
        """Of its processes, in its time: in hours another job has the same pids. What it says last may come a while
        behind the job's end."""
        return set(f["pids"]) <= self.pids() and self.begin_ns <= f["t_ns"] <= (self.end_ns or f["t_ns"]) + AFTER_NS

    def begun(self):
        """By the job's own word."""
        return any(f["fault"] == self.fault for f in job.lines(self.faults))

    def pids(self):
        """By its log so far."""
        with self.lock:
            self.known |= {o["pid"] for o in self.ops.more()}
            return set(self.known)


class Session:
    def __init__(self, command, where, launcher_pid):
        self.command, self.dir = command, f"{where}/{command}"
        os.mkdir(self.dir)
        self.err, self.findings, self.sizes = open(f"{self.dir}/stderr", "w+"), [], []
        env = dict(os.environ, RANKTRACE_RUN_DIR=f"{self.dir}/run")
        argv = [job.RANKTRACE, command, "-v", "--json", "--pid", str(launcher_pid), f"--flight={self.dir}/flight",
                "--flight-seconds", "15", "--flight-mb", "8", "--flight-keep", "3", "-o", f"{self.dir}/s.rtr",
                "--rotate", "15s", "--keep", "2", f"--phases={self.dir}/phases", *COMMANDS[command]]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=self.err, text=True, env=env)
        job.jobs.append(self)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        with open(f"{self.dir}/findings.jsonl", "w", buffering=1) as kept:  # what a failure is looked at by
            for line in self.process.stdout:
                self.findings.append(json.loads(line))
                kept.write(line)

    def stderr(self):
        with open(f"{self.dir}/stderr") as f:
            return f.read()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def last(self):
        """Each finding by its last word."""
        return list({f["id"]: f for f in list(self.findings)}.values())

    def roots(self):
        return [f for f in self.last() if not f["caused_by"] and f["kind"] not in ("observation", "lost_events")]

    def names(self, e):
        """What it reports of that fault: the rank, as stopped, or as the reason of a hang. By any of its words: at the
        job's end the rank may die a moment before its peers, and that is the last one."""
        said = {f["id"] for f in list(self.findings) if f["ranks"] == [e.rank] and e.is_of(f) and
                (f["kind"] == "hang" and f["class"] == FAULTS[e.fault] or f["kind"] == FAULTS[e.fault])}
        return [f for f in self.roots() if f["id"] in said]

    def sample(self):
        mine, maps = [self.process.pid] + cost.children(self.process.pid), cost.bpf_maps(self.process.pid)
        one = collections.Counter({"BPF maps": len(maps), "BPF MiB": sum(maps.values()) / (1 << 20),
                                   "files": sum(len(files) for _, _, files in os.walk(self.dir))})
        for p in mine:
            try:
                one["memory MiB"] += anon_mib(p)
                one["threads"] += len(os.listdir(f"/proc/{p}/task"))
                one["descriptors"] += len(os.listdir(f"/proc/{p}/fd"))
            except (FileNotFoundError, StopIteration, ProcessLookupError):
                pass
        self.sizes.append(one)

    def quarters(self, what):
        """Median in the second and in the last quarter of the run; and the most at any time."""
        n = len(self.sizes) // 4
        values = [s[what] for s in self.sizes]
        return statistics.median(values[n:2 * n]), statistics.median(values[-n:]), max(values)


class Run:
    def __init__(self, rng):
        self.rng, self.dir, self.launcher = rng, tempfile.mkdtemp(prefix="ranktrace-soak-"), Launcher()
        job.dirs.append(self.dir)
        self.sessions = [Session(c, self.dir, self.launcher.process.pid) for c in COMMANDS]
        self.end, self.episodes, self.trouble = time.monotonic() + 60 * MINUTES, [], []
        self.numbers = itertools.count()  # lanes begin jobs at the same time: each has logs of its own

    def left(self):
        return self.end - time.monotonic()

    def episode(self, *args, **fault):
        self.episodes.append(Episode(self, next(self.numbers), args, **fault))
        return self.episodes[-1]

    def life(self):
        while self.left() > 5:
            e = self.episode("--steps", "1000000", "--life", "--life-scale", "0.2")
            until = time.monotonic() + min(self.rng.uniform(20, 60), self.left())
            while time.monotonic() < until:
                time.sleep(0.2)
            e.end()

    def faulty(self, fault):
        e = self.episode("--steps", "1000000", "--linger-sec", "60", fault=fault, rank=self.rng.randrange(RANKS))
        until = time.monotonic() + 120
        while time.monotonic() < until and not e.begun():
            time.sleep(0.2)
        until = time.monotonic() + 60
        while time.monotonic() < until and not all(s.names(e) for s in self.sessions):
            time.sleep(0.5)
        time.sleep(3)  # whatever else is said of it
        e.end()

    def churn(self):
        order = sorted(FAULTS)
        self.rng.shuffle(order)
        for i in range(1 << 30):
            if self.left() < 15:
                return
            self.faulty(order[i % len(order)])
            e = self.episode("--steps", str(self.rng.randrange(40, 120)))
            while is_running(e.pid) and self.left() > 0:
                time.sleep(0.2)
            e.end()

    def lane(self, what):
        try:
            what()
        except Exception as error:  # the other lane goes on, and the test fails
            self.trouble.append(repr(error))

    def go(self):
        lanes = [threading.Thread(target=self.lane, args=(f,)) for f in (self.life, self.churn)]
        for t in lanes:
            t.start()
        while any(t.is_alive() for t in lanes):
            for s in self.sessions:
                job.check(s.process.poll() is None, f"{s.command} ended: {s.stderr()}")
                s.sample()
            time.sleep(1)
        job.check(not self.trouble, f"{self.trouble}")


def check_findings(run, s):
    faults = [e for e in run.episodes if e.fault and e.begun()]  # on a busy machine a job may not get that far
    named = {f["id"] for e in faults for f in s.names(e)}
    for e in faults:
        job.check(len(s.names(e)) == 1, f"{s.command}: {e.fault} of rank {e.rank} reported {len(s.names(e))} times: "
                  f"{[f for f in s.last() if e.is_of(f)]}")
    roots = [f for f in s.roots() if f["id"] not in named]
    critical = [f for f in roots if f["severity"] == "critical"]
    job.check(not critical, f"{s.command}: critical, and nobody's fault: {critical}")
    # one pause at a call site that nobody knows yet is a warning; known jobs' pauses are known by their name and place
    # (one that goes on at its operation may close and open again: where it is sleeps and computes in turns; where no
    # stack could be read in time, as on a busy machine, the places of two pauses are not known to be one)
    places = {(lives.site(f), (f["job"], *f["pids"]), f["comm"], f["seq"]) for f in roots
              if f["severity"] == "warning" and lives.site(f) != "not read"}
    sites = collections.Counter((site, pids) for site, pids, _, _ in places)
    job.check(all(n == 1 for n in sites.values()), f"{s.command}: warned more than once of a place: {sites}")
    print(f"  {s.command}: {len(faults)} faults, each reported once; {len(sites)} warnings of life, "
          f"{len(roots) - sum(sites.values())} others")


def check_sizes(s):
    print(f"  {s.command}:")
    for what, more in MORE.items():
        early, late, most = s.quarters(what)
        print(f"    {what:12} second quarter {early:6.1f}, last {late:6.1f}, most {most:6.1f}")
        if what == "memory MiB" and MINUTES < MEMORY_MINUTES:
            continue
        job.check(late <= early + more, f"{s.command}: {what} grew from {early} to {late}, {more} more are allowed")


def main():
    job.need_root()
    rng, _ = job.seed()
    run = Run(rng)
    run.go()
    print(f"  {MINUTES} minutes, {len(run.episodes)} jobs of {RANKS} ranks")
    for s in run.sessions:  # both sizes are printed before anything of the findings ends it
        check_sizes(s)
    for s in run.sessions:
        check_findings(run, s)
        s.process.send_signal(signal.SIGTERM)
        job.check(s.process.wait(60) in (0, 1), f"{s.command}: {s.stderr()}")
        flights.bases(f"{s.dir}/flight")  # whole sets, and nothing else
        job.check(os.listdir(f"{s.dir}/run") == [], f"left behind: {os.listdir(f'{s.dir}/run')}")


launcher() if len(sys.argv) > 1 else main()
