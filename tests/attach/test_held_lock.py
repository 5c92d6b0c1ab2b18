# SPDX-License-Identifier: Apache-2.0
"""A rank whose mmap_lock is held (a page fault on a frozen storage, munmap behind it): putting a probe into a file that
it maps, or taking one out, would wait for that lock, and every fork of the host behind it. The tracer comes, and goes,
while it lasts: forks go on, the tracer ends in time, and once the lock is free its probes are in, or out, as they
should be."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import bpf_objects
import job

RANKS, HELD_S = 4, 12
FORK_S = 1.0  # it was 6.1 s with nobody looking whether the lock is held
END_S = 4.0
FREED_S = 20  # a lock that is held is asked for at intervals of 4 s at most


def forker():
    """Forks until told to stop; prints the longest fork in seconds."""
    longest = 0
    while not os.path.exists(sys.argv[2]):
        begin = time.monotonic_ns()
        pid = os.fork()
        if not pid:
            os._exit(0)
        longest = max(longest, time.monotonic_ns() - begin)
        os.waitpid(pid, 0)
        time.sleep(0.002)
    print(longest / 1e9)


class Forks:
    def __init__(self, where, name):
        self.stop = f"{where}/{name}.stop"
        self.process = subprocess.Popen([sys.executable, "-B", __file__, "forker", self.stop], stdout=subprocess.PIPE,
                                        text=True)

    def longest_s(self):
        open(self.stop, "w").close()
        return float(self.process.communicate(timeout=60)[0])


def wait_until(seconds, condition):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return condition()


class Sim:
    """A job with one rank to be held from a step on; and where it writes what."""

    def __init__(self, name, steps):
        self.dir = tempfile.mkdtemp(prefix=f"ranktrace-held-{name}-")
        job.dirs.append(self.dir)
        self.rank, step = rng.randrange(RANKS), rng.randrange(*steps)
        args = ["--ranks", RANKS, "--steps", 100000, "--step-ms", 60, "--linger-sec", 60, "--seed",
                rng.randrange(1 << 30),
                "--log", f"{self.dir}/ops.jsonl",
                "--fault-log", f"{self.dir}/faults.jsonl", "--fault",
                f"dstate-mm:rank={self.rank},step={step},sec={HELD_S}"]
        print("sim job", *args, flush=True)
        self.err = open(f"{self.dir}/stderr", "w")
        self.process = subprocess.Popen([job.RANKTRACE, "sim", "job", *map(str, args)], stderr=self.err)
        job.jobs.append(self)

    def faults(self, phase):
        return [t for t in job.lines(f"{self.dir}/faults.jsonl") if t["phase"] == phase]

    def wait_held(self):
        job.check(wait_until(40, lambda: self.faults("begin")), "no fault began")
        with open(f"{self.dir}/stderr") as f:
            if "by vfork" in f.read():
                job.skip("no frozen file system here")
        time.sleep(1)

    def record(self):
        self.log, self.rtr = f"{self.dir}/record.log", f"{self.dir}/a.rtr"
        self.tracer = subprocess.Popen([job.RANKTRACE, "record", "--json", "-o", self.rtr, "--pid",
                                        str(self.process.pid)],
                                       stdout=open(f"{self.dir}/findings.jsonl", "w"), stderr=open(self.log, "w"))

    def said(self):
        with open(self.log) as f:
            return f.read()

    def end_tracer(self):
        """Seconds it took."""
        begin = time.monotonic()
        self.tracer.send_signal(signal.SIGINT)
        code = self.tracer.wait(60)
        job.check(code in (0, 1), f"the tracer ended with {code}: {self.said()}")
        return time.monotonic() - begin

    def ops(self):
        out = subprocess.run([job.RANKTRACE, "replay", "-q", "--ops", self.rtr], capture_output=True, text=True)
        return [json.loads(line) for line in out.stdout.splitlines()]

    def kill(self):
        for p in (getattr(self, "tracer", None), self.process):
            if p and p.poll() is None:
                p.send_signal(signal.SIGINT)
                try:
                    p.wait(30)
                except subprocess.TimeoutExpired:
                    p.kill()


def goes_while_held(killed):
    """Attached to a job that is well; the session ends while a rank is held, or was killed and cannot die of it."""
    for later in 1, 2, 4, 8:  # a busy machine may take long to attach
        sim = Sim("goes", (60 * later, 80 * later))
        time.sleep(1)
        sim.record()
        sim.wait_held()
        ids = bpf_objects.of_process(sim.tracer.pid)
        if bpf_objects.count(ids, "link") > 10:
            break
        sim.kill()
    else:
        job.fail(f"no links before the fault: this test would prove nothing: {sim.said()}")
    forks = Forks(sim.dir, "goes")
    if killed:
        os.kill(sim.faults("begin")[0]["pid"], signal.SIGKILL)
        time.sleep(1)
    time.sleep(0.5)
    took = sim.end_tracer()
    time.sleep(2)
    longest = forks.longest_s()
    job.check(time.monotonic_ns() < sim.faults("begin")[0]["t_ns"] + HELD_S * 1e9,
              "the rank is free by now: this test would prove nothing")
    print(f"  gone while rank {sim.rank} was held{' and killed' if killed else ''}: ended in {took:.2f} s, longest "
          f"fork {longest:.3f} s")
    job.check(longest < FORK_S, f"a fork took {longest:.2f} s: {sim.said()}")
    job.check(took < END_S, f"the tracer took {took:.2f} s to end: {sim.said()}")
    job.check("mmap_lock" in sim.said(), f"it was not reported that probes wait: {sim.said()}")
    ranks = {o["rank"] for o in sim.ops()}
    job.check(ranks == set(range(RANKS)), f"operations of ranks {ranks} only")
    job.check(bpf_objects.left(ids), "nothing is left to be taken out: this test would prove nothing")
    job.check(killed or wait_until(HELD_S + 10, lambda: sim.faults("end")), "the fault did not end")
    job.check(wait_until(HELD_S + FREED_S, lambda: not bpf_objects.left(ids)),
              f"left in the kernel: {bpf_objects.left(ids)}")
    job.check(sim.process.poll() is None, "the job died")
    sim.kill()


def comes_while_held():
    """The session begins while a rank is held: its probes go in when the lock is free."""
    sim = Sim("comes", (15, 30))
    sim.wait_held()
    forks = Forks(sim.dir, "comes")
    time.sleep(0.5)
    sim.record()
    wait_until(HELD_S - 5, lambda: "mmap_lock" in sim.said())
    time.sleep(2)
    longest = forks.longest_s()
    ids = bpf_objects.of_process(sim.tracer.pid)
    job.check(not sim.faults("end"), "the rank is free by now: this test would prove nothing")
    print(f"  came while rank {sim.rank} was held: longest fork {longest:.3f} s, "
          f"{bpf_objects.count(ids, 'link')} links")
    job.check(longest < FORK_S, f"a fork took {longest:.2f} s: {sim.said()}")
    job.check(sim.said().count("mmap_lock") == len({line
                                                    for line in sim.said().splitlines() if "mmap_lock" in line}) > 0,
              f"it was not reported, or more than once, that probes wait: {sim.said()}")
    job.check(wait_until(HELD_S + 10, lambda: sim.faults("end")), "the fault did not end")
    end_ns = sim.faults("end")[0]["t_ns"]
    job.check(wait_until(FREED_S, lambda: len(bpf_objects.of_process(sim.tracer.pid)) > len(ids) + 10),
              f"no probes went in: {sim.said()}")
    time.sleep(4)
    ids = bpf_objects.of_process(sim.tracer.pid)
    took = sim.end_tracer()
    ops = sim.ops()
    print(f"  {len(ops)} operations seen from {(min((o['t_ns'] for o in ops), default=0) - end_ns) / 1e9:.2f} s after "
          f"it was free")
    job.check({o["rank"] for o in ops} == set(range(RANKS)), f"operations of ranks { {o['rank'] for o in ops} } only")
    job.check(wait_until(10, lambda: not bpf_objects.left(ids)),
              f"left in the kernel after {took:.1f} s: {bpf_objects.left(ids)}")
    sim.kill()


if sys.argv[1:2] == ["forker"]:
    forker()
else:
    job.need_root()
    rng, _ = job.seed()
    goes_while_held(killed=False)
    goes_while_held(killed=True)
    comes_while_held()
