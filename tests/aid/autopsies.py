# SPDX-License-Identifier: Apache-2.0
"""ranktrace autopsy on a simulated job that hangs, started after the hang. The truth is the job's own logs."""
import json
import os
import shutil
import subprocess
import tempfile
import time

import faults
import job


class Autopsy:
    """A simulated job with nobody looking; later, what the command says of it."""

    def __init__(self, sim_args, env=None, within=()):
        """within: a command that becomes the one behind it, as unshare."""
        self.dir = tempfile.mkdtemp(prefix="ranktrace-autopsy-")
        job.dirs.append(self.dir)
        self.ops_log, self.fault_log = f"{self.dir}/ops.jsonl", f"{self.dir}/faults.jsonl"
        argv = [job.RANKTRACE, "sim", "job", "--log", self.ops_log, "--fault-log", self.fault_log, *map(str, sim_args)]
        print(" ".join(argv[1:]), flush=True)
        self.process = subprocess.Popen([*within, *argv], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        pass_fds=job.inherited)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def wait_fault(self, name, timeout=60):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            for f in job.lines(self.fault_log):
                if f["fault"] == name and f["phase"] == "begin":
                    return f
            time.sleep(0.05)
        job.fail("the job did not log its fault")

    def settle(self, still_s=1.5):
        """Whoever can go on has done so: nobody entered anything for a while."""
        n, since = -1, time.monotonic()
        while time.monotonic() - since < still_s:
            now = len(job.lines(self.ops_log))
            n, since = now, since if now == n else time.monotonic()
            time.sleep(0.1)

    def peers_entered(self, comm, seq, rank):
        """Peers entered this collective, and the rank did not: by the job's own log."""
        who = {o["rank"] for o in job.lines(self.ops_log) if (o["comm"], o["seq"]) == (comm,
                                                                                       seq) and o["op"] in job.COUNTED}
        return who and rank not in who

    def run(self, *args):
        begin = time.monotonic()
        out = subprocess.run([job.RANKTRACE, "autopsy", "--pid", str(self.process.pid), *map(str, args)],
                             capture_output=True, text=True)
        self.wall_s = time.monotonic() - begin
        self.code, self.out, self.err = out.returncode, out.stdout, out.stderr
        job.check(self.code < 4, f"autopsy failed: {self.code} {self.err}")
        return self.code

    def run_json(self, *args):
        self.run("--json", *args)
        return [json.loads(line) for line in self.out.splitlines()]


LONG = bool(os.environ.get("LONG"))
SMALL_S = 1.0  # for 8 small processes; asserted where nothing else runs


def check_time(a):
    job.check(not LONG or a.wall_s <= SMALL_S, f"took {a.wall_s:.2f} s, bar {SMALL_S} s\n{a.err}")


def places_of(f):
    """Where the culprit may be missing: what is reported, and what it may be instead."""
    others = [x.split("#") for x in f["evidence"].get("comm_one_of", "").split(",") if x]
    return [(f["comm"], f["seq"])] + [(c, int(n)) for c, n in others]


def check_named(a, found, truth, hang_class, exact, floor):
    """One hang, of that rank and class, at an operation that it did not enter and peers did; no other rank is named."""
    rank = truth["rank"]
    hangs = [f for f in found if f["kind"] == "hang"]
    job.check(a.code == 1 and len(hangs) == 1, f"exit {a.code}, findings {found}\n{a.err}")
    f = hangs[0]
    print(f"  hang/{f['class']} rank {f['ranks']} {f['op']} #{f['seq']} confidence {f['confidence']} in {a.wall_s:.2f} "
          f"s")
    job.check(f["ranks"] == [rank] and f["pids"] == [truth["pid"]], f"named {f['ranks']} {f['pids']}, not {truth}")
    job.check(f["class"] == hang_class, f"class {f['class']} instead of {hang_class}: {f}")
    places = places_of(f)
    lacked = [p for p in places if a.peers_entered(*p, rank)]
    job.check(lacked and (exact is False or lacked[0] == places[0]),
              f"{f['op']} #{f['seq']} of {f['comm']} was entered by all: {f}")
    job.check(f["confidence"] >= floor, f"confidence {f['confidence']}")
    if exact:
        job.check([truth[k] for k in ("comm", "op", "seq")] == [f[k] for k in ("comm", "op", "seq")],
                  f"injected before {truth}, named {f['op']} #{f['seq']} of {f['comm']}")
    job.check(all(x["ranks"] == [rank] for x in found), f"others are named: {found}")
    return f


def check_call_site(f, fault):
    """What the culprit is in, as far as it can be read: its memory, where a thread waits for mmap_lock, cannot."""
    e = f["evidence"]
    if fault.startswith("dstate-mm"):
        job.check("mmap_lock" in e.get("stack_end", "") + e.get("stack_unread", ""),
                  f"nothing says why there is no stack: {e}")
        return
    wait = {"hang": "clock_nanosleep", "dstate": "openat of "}.get(fault.split(":")[0], "")
    job.check(e.get("kernel_wait", "").startswith(wait), f"kernel_wait {e.get('kernel_wait')}, not {wait}")
    job.check("rank_main (simjob)" in e.get("stack", ""), f"no stack of the culprit: {e}")
    if not fault.startswith("stop"):
        job.check(e["native_frame"].endswith("(simjob)"), f"native_frame {e['native_frame']}")
    job.check(e["waiting_in"].endswith("stream_synchronize (libcuda.so.1)"), f"waiting_in {e['waiting_in']}")


def hang(fault, hang_class, rng, extra=(), exact=True, floor=0.9):
    """The command comes after the hang. Its recording replays to the same findings; its report begins with the rank."""
    rank, step, number = faults.draw(rng)
    args = ["--ranks", 8, "--steps", 400, "--seed", number, "--fault", fault.format(rank=rank, step=step), *extra]
    with Autopsy(args) as a:
        truth = a.wait_fault(fault.split(":")[0])
        a.settle()
        rtr = f"{a.dir}/autopsy.rtr"
        found = a.run_json("-o", rtr)
        check_time(a)
        f = check_named(a, found, truth, hang_class, exact, floor)
        again = subprocess.run([job.RANKTRACE, "replay", "-q", "--json", rtr], capture_output=True, text=True)
        job.check(again.stdout == a.out, f"replay differs:\n{a.out}\n{again.stdout}")
        a.run()
        first = a.out.splitlines()[0]
        job.check(a.code == 1 and f"rank {rank} " in first, f"the report begins with: {first}")
        check_call_site(f, fault)
        job.check(sum(line.split()[:1] == [str(rank)] for line in a.out.splitlines()) == 1,
                  f"no line of rank {rank}:\n{a.out}")
        job.result(f"autopsy {fault.split(':')[0]} {' '.join(map(str, extra))}".strip(), a.wall_s)
        return f, found


def deadlock(rng):
    """Two communicators in opposite orders, each host blocked in its first: from counters that is a circle."""
    rank, step, number = faults.draw(rng)
    with Autopsy(["--ranks", 8, "--steps", 400, "--seed", number, "--layout", "tp=2,dp=4", "--fault",
                  f"deadlock:rank={rank},step={step},host=blocked"]) as a:
        truth = a.wait_fault("deadlock")
        a.settle()
        found = a.run_json()
        check_time(a)
        job.check(a.code == 1 and len(found) == 1 and found[0]["class"] == "deadlock", f"exit {a.code}: {found}")
        f = found[0]
        print(f"  hang/deadlock ranks {f['ranks']} {f['op']} #{f['seq']} confidence {f['confidence']} in "
              f"{a.wall_s:.2f} s")
        job.check(sorted(f["ranks"]) == truth["ranks"], f"named {f['ranks']}, not {truth}")
        job.check(set(f["evidence"]["comms"].split(",")) == set(truth["comms"]), f"{f} is not {truth}")
        job.check((f["comm"], f["op"], f["seq"]) in zip(truth["comms"], truth["ops"], truth["seqs"]),
                  f"{f} is not {truth}")
        job.check(f["evidence"]["waiting_in"].count("stream_synchronize") >= 2, f"where they wait: {f['evidence']}")
        job.result("autopsy deadlock", a.wall_s)


def init(rng, how):
    """The job's communicator lacks a rank: its members are there already, in creation."""
    rank, _, number = faults.draw(rng)
    with Autopsy(["--ranks", 8, "--seed", number, "--fault", f"init:rank={rank},what=start,how={how}"]) as a:
        truth = a.wait_fault("init")
        time.sleep(2)
        found = a.run_json()
        check_time(a)
        print(f"  {[(f['kind'], f['class'], f['cause'], f['ranks']) for f in found]} in {a.wall_s:.2f} s")
        kind = "observation" if how == "busy" else "hang"
        job.check(len(found) == 1 and (found[0]["kind"], found[0]["class"]) == (kind, "init"),
                  f"exit {a.code}: {found}")
        job.check(found[0]["ranks"] == [rank] and found[0]["pids"] == [truth["pid"]], f"named {found[0]}, not {truth}")
        job.check(a.code == (how != "busy"), f"exit {a.code}")
        job.result(f"autopsy init how={how}", a.wall_s)


def gone(rng, extra=()):
    """A rank that was dead before anybody looked: a place in the communicators, and no process."""
    rank, step, number = faults.draw(rng)
    with Autopsy(["--ranks", 8, "--steps", 400, "--seed", number, "--fault", f"kill:rank={rank},step={step}",
                  *extra]) as a:
        a.wait_fault("kill")
        a.settle()
        found = a.run_json()
        job.check(a.code == 1 and len(found) == 1, f"exit {a.code}: {found}\n{a.err}")
        f = found[0]
        print(f"  hang/{f['class']} rank {f['ranks']} ({f['cause']}) confidence {f['confidence']} in {a.wall_s:.2f} s")
        job.check((f["class"], f["cause"], f["ranks"]) == ("process_dead", "not_there", [rank]), f"{f}")
        job.check(0.5 <= f["confidence"] <= 0.9, f"{f}")
        job.check(not f["op"] or any(a.peers_entered(*p, rank) for p in places_of(f)), f"{f} was entered by all")
        job.result(f"autopsy kill {' '.join(map(str, extra))}".strip(), a.wall_s)


def healthy(rng, extra=()):
    with Autopsy(["--ranks", 8, "--steps", 400, "--seed", rng.randrange(1 << 30), *extra]) as a:
        while len(job.lines(a.ops_log)) < 200:
            time.sleep(0.1)
        job.check(a.run_json() == [] and a.code == 0, f"exit {a.code}: {a.out}{a.err}")
        job.check(a.run() == 0 and a.out.startswith("HEALTHY"), f"exit {a.code}: {a.out}{a.err}")
        print(f"  healthy {' '.join(extra)} in {a.wall_s:.2f} s")


def no_dwarf(rng):
    """Nothing says where NCCL keeps its counters: no rank is named, and the reason is reported."""
    libs = f"{job.O}/lib/ranktrace/sim"
    folder = tempfile.mkdtemp(prefix="ranktrace-nodwarf-")
    job.dirs.append(folder)
    shutil.copy(f"{libs}/libcuda.so.1", folder)
    subprocess.run(["objcopy", "--strip-debug", f"{libs}/libnccl.so.2", f"{folder}/libnccl.so.2"], check=True)
    rank, step, number = faults.draw(rng)
    with Autopsy(["--ranks", 8, "--steps", 400, "--seed", number, "--fault", f"hang:rank={rank},step={step}",
                  "--nccl-lib", f"{folder}/libnccl.so.2"]) as a:
        a.wait_fault("hang")
        a.settle()
        job.check(a.run_json() == [] and a.code == 3, f"exit {a.code}: {a.out}")
        job.check("DWARF" in a.err, f"no reason reported: {a.err}")
        a.run()
        job.check(a.out.startswith("UNKNOWN") and "rank" not in a.out.splitlines()[0].split()[:3], f"{a.out}")
        print("  no DWARF: unknown")
