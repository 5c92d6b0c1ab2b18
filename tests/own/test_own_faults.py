# SPDX-License-Identifier: Apache-2.0
"""What may happen to us, at moments drawn from SEED, beside ranks that train: the daemon is killed, stopped, out of
memory, without CPU time; and each of its workers is killed, stopped, out of memory. The job's own output is as without
us, nothing is found about it, every recording can be read, no probe and no process is left; and the daemon whose
workers it happened to names a rank that is stopped afterwards."""
import collections
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
sys.path.insert(1, sys.path[0] + "/../hostile")
import bpf_objects
import cgroups
import gpus
import hostile
import job
import test_privileges

GUEST = bool(os.environ.get("GUEST"))  # tests/vm/test_own_faults.sh: a machine without another's cgroups, and slow
ROUNDS = 4 if GUEST else 40 if job.LONG else 6  # of daemons
WORKER_ROUNDS = 4 if GUEST else 200 if job.LONG else 14
WORKERS = ["ranktrace-read", "ranktrace-parse", "ranktrace-nvml", "ranktrace-zyg"]
STEPS, STEP_MS = (800, 500) if GUEST else (30000 if job.LONG else 2200, 30)
END_S = (4 if GUEST else 1) * STEPS * STEP_MS / 1000 + 120  # a step takes as long as the guest is slow
LEAST_BYTES = 16 << 10  # of memory, from then on: the next work of any of ours needs more
CORES = 0.03
GONE_S = 60 if GUEST else 10
BLOCKED_LOOKS = 3  # a tenth of a second apart
STARTED_S = 240 if GUEST else 30
NEEDED_S = 60 if GUEST else 10  # a reader
REPLACED_S = 1.5  # a zygote; it takes a quarter of a second
HARMLESS = ("observation", "lost_events")


def is_alive(pid):
    try:
        return test_privileges.status(pid)["State"][0] != "Z"
    except test_privileges.ENDED:
        return False


class Daemon:
    def __init__(self, victim, command):
        self.dir = tempfile.mkdtemp(prefix="ranktrace-own-")
        job.dirs.append(self.dir)
        job.jobs.append(self)
        self.command, self.rtr = command, f"{self.dir}/own.rtr"
        more = ["--no-raise", f"--phases={self.dir}/phases"] if command == "watch" else []
        self.process = subprocess.Popen(
            [job.RANKTRACE, command, "-v", "--json", "--pid", str(victim.process.pid), f"--flight={self.dir}/flight",
             "-o", self.rtr, *more], stdout=open(f"{self.dir}/findings", "w"), stderr=open(f"{self.dir}/stderr", "w"),
            env=dict(os.environ, RANKTRACE_RUN_DIR=f"{self.dir}/run"), start_new_session=True)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stderr(self):
        with open(f"{self.dir}/stderr") as f:
            return f.read()

    def family(self):
        return test_privileges.of_session(self.process.pid)

    def check_findings(self):
        wrong = [f for f in job.lines(f"{self.dir}/findings") if f["kind"] not in HARMLESS]
        job.check(not wrong, f"nothing is wrong with the job: {wrong}\n{self.stderr()}")

    def check_recording(self):
        """What there is of it by then: a daemon that dies has not renamed it yet."""
        path = next((p for p in (self.rtr, f"{self.rtr}.part") if os.path.exists(p) and os.path.getsize(p)), None)
        if not path:
            return 0
        out = subprocess.run([job.RANKTRACE, "replay", "-q", "--ops", path], capture_output=True, text=True)
        job.check(out.returncode in (0, 1), f"its recording cannot be read: {out.stderr}")
        return out.stdout.count("\n")

    def check_gone(self, family, objects):
        """It, its workers, its probes, programs and maps."""
        end = time.monotonic() + GONE_S
        alive = lambda: [n for p, n in family.items() if is_alive(p)]
        while time.monotonic() < end and (alive() or bpf_objects.left(objects)):
            time.sleep(0.1)
        job.check(not alive(), f"processes are left: {alive()}")
        job.check(not bpf_objects.left(objects), f"BPF objects are left: {bpf_objects.left(objects)}")

    def end(self):
        """It takes signals from its start on: on a busy machine that may be a while. Before that libc blocks them for
        moments."""
        end, looks = time.monotonic() + STARTED_S, 0
        blocked = lambda: int(test_privileges.status(self.process.pid)["SigBlk"], 16) >> (signal.SIGTERM - 1) & 1
        while time.monotonic() < end and self.process.poll() is None and looks < BLOCKED_LOOKS:
            looks = looks + 1 if blocked() else 0
            time.sleep(0.1)
        self.process.terminate()
        code = self.process.wait(60)
        job.check(code == 0, f"ended with {code}: {self.stderr()}")


def killed(d, rng):
    d.process.kill()
    d.process.wait()


def out_of_memory(d, rng):
    group = cgroups.Group("memory")
    group.memory(LEAST_BYTES)
    group.add(d.process.pid)
    d.process.send_signal(signal.SIGCONT)
    d.process.wait(30)
    job.check(group.killed() >= 1, f"the kernel did not kill it: {d.stderr()}")


def stopped(d, rng):
    time.sleep(rng.uniform(0.1, 4))
    d.process.send_signal(signal.SIGCONT)
    time.sleep(1)
    d.end()


def without_cpu(d, rng):
    group = cgroups.Group("cpu")
    group.cpu(CORES)
    group.add(d.process.pid)
    d.process.send_signal(signal.SIGCONT)
    time.sleep(rng.uniform(1, 4))
    group.cpu(None)
    time.sleep(1)
    d.end()


def daemon_round(rng, victim, fault):
    """Stopped for the moment of a look at what it holds, which is then all that it holds."""
    d, at_s = Daemon(victim, rng.choice(("record", "watch"))), rng.uniform(0, 3)
    time.sleep(at_s)
    d.process.send_signal(signal.SIGSTOP)
    family, objects = d.family(), bpf_objects.of_process(d.process.pid)
    fault(d, rng)
    d.check_gone(family, objects)
    d.check_findings()
    print(f"  {d.command} {fault.__name__} after {at_s:.2f} s: {len(family)} processes and {len(objects)} BPF objects "
          f"gone, {d.check_recording()} operations recorded", flush=True)


def of_name(d, name):
    return sorted(p for p, known in d.family().items() if known == name)


def zygote_used(d, pid):
    """One that cannot have another page shows that when it makes a reader, and may not be asked to for long: until it
    has ended it counts as hit, and no other may be."""
    for reader in of_name(d, "ranktrace-read"):
        os.kill(reader, signal.SIGKILL)
    time.sleep(1)
    if is_alive(pid):
        os.kill(pid, signal.SIGKILL)


def worker_fault(rng, d, name, group, faults):
    """It cannot have another page of address space; or what takes its place has no memory: the kernel kills that, or
    who makes it. A zygote's place is taken by what another one makes: that is left alone meanwhile."""
    pid = rng.choice(of_name(d, name))
    fault = rng.choice([f for f in faults if f != "memory" or name != "ranktrace-zyg"])
    if fault == "limit":
        pages = int(cgroups.read(f"/proc/{pid}/statm").split()[0])
        resource.prlimit(pid, resource.RLIMIT_AS, (pages * resource.getpagesize(), resource.RLIM_INFINITY))
        if name == "ranktrace-zyg":
            zygote_used(d, pid)
        return fault
    for zygote in of_name(d, "ranktrace-zyg")[:1] if fault == "memory" else []:
        group.add(zygote)
    os.kill(pid, signal.SIGSTOP if fault == "stop" else signal.SIGKILL)
    return fault


def zygotes_wait(d, before):
    """Until those that were hit are replaced, on a busy machine too: a stopped one stays in the list until then."""
    time.sleep(REPLACED_S)
    end = time.monotonic() + NEEDED_S
    while time.monotonic() < end and d.process.poll() is None:
        now = of_name(d, "ranktrace-zyg")
        if len(now) >= len(before) and not any(is_halted(p) for p in now):
            return
        time.sleep(0.1)


def is_halted(pid):
    """Stopped, or dead and not reaped."""
    try:
        return cgroups.read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()[0] in "TtZX"
    except OSError:
        return True


def one_without_memory(rng, d, group, n):
    """A reader is needed all the time: the next one is killed for memory, or its zygote is, at once."""
    zygotes = of_name(d, "ranktrace-zyg")
    for zygote in zygotes:
        if group.killed():
            break
        group.add(zygote)
        for pid in of_name(d, "ranktrace-read"):
            os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + NEEDED_S
        while not group.killed() and time.monotonic() < end:
            time.sleep(0.05)
        group.empty()
        zygotes_wait(d, zygotes)
    job.check(group.killed(), f"no worker ran out of memory: this test would prove nothing\n{d.stderr()}")
    n["ranktrace-read", "memory"] += 1


def workers(rng, victim, memory):
    """Of two zygotes one at a time is hit: it is replaced within REPLACED_S."""
    d, n = Daemon(victim, rng.choice(("record", "watch"))), collections.Counter()
    group = cgroups.Group("memory") if memory else None
    faults = ["kill", "stop", "limit"]
    time.sleep(2)
    if group:
        faults.append("memory")
        group.memory(LEAST_BYTES)
        one_without_memory(rng, d, group, n)
    zygotes = of_name(d, "ranktrace-zyg")
    for _ in range(WORKER_ROUNDS):
        name, fault = rng.choice(WORKERS), None
        try:
            fault = worker_fault(rng, d, name, group, faults)
            n[name, fault] += 1
        except (IndexError, OSError, ValueError):  # none is there, or no more
            pass
        if fault == "memory" or name == "ranktrace-zyg":
            zygotes_wait(d, zygotes)
        else:
            time.sleep(rng.uniform(0.1, 1.2))
        if group:
            group.empty()
        job.check(d.process.poll() is None, f"the daemon ended: {d.stderr()}")
    d.check_findings()
    print(f"  {d.command}: {sum(n.values())} times something happened to a worker: {dict(n)}"
          f"{f'; {group.killed()} ran out of memory' if group else ''}", flush=True)
    return d


def named_afterwards(d, victim):
    pid = max(victim.pids())
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + 60
    found = lambda: [f for f in job.lines(f"{d.dir}/findings") if f["kind"] == "hang" and f["phase"] == "open"]
    while time.monotonic() < end and not found():
        time.sleep(0.1)
    os.kill(pid, signal.SIGCONT)
    job.check(found() and found()[0]["pids"] == [pid], f"pid {pid} is not named: {found()}\n{d.stderr()}")
    d.process.terminate()
    job.check(d.process.wait(60) in (0, 1), f"{d.stderr()}")
    d.check_recording()


def main():
    job.need_root()
    rng, _ = job.seed()
    gpus.use()
    memory, cpu = cgroups.why_not("memory"), cgroups.why_not("cpu")
    for why in filter(None, (memory, cpu)):
        print(f"  left out: {why}")
    job.check(not GUEST or not (memory or cpu), "a guest has both: this test would prove nothing")
    faults = [out_of_memory] * (not memory) + [without_cpu] * (not cpu) + [killed, stopped]
    victim = hostile.Victim(rng, steps=STEPS, step_ms=STEP_MS)
    victim.wait_begun()
    for i in range(ROUNDS):
        daemon_round(rng, victim, faults[i % len(faults)])
    named_afterwards(workers(rng, victim, not memory), victim)
    job.check(victim.process.poll() is None, "the job was over before: this test would prove nothing")
    victim.end(END_S)


main()
