# SPDX-License-Identifier: Apache-2.0
# runs alone: the phases of ranks are compared with the ranks' own clocks, to the millisecond
"""The simulated job with PyTorch's marks: every phase of every step is as long as its step log says, within 1 ms + 1 %,
whatever is done to it: a slow backward, one slow data worker, steps that grow, a compilation, collections, slow
storage; with micro-batches and a pipeline, too. Of a sharded job whose script has so many ranges that the budget takes
them, what is left of each step is. Where the thread lost its CPU between stamp and mark, the two differ by that
(held_against.Comparison)."""
import collections
import sys
import tempfile

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import held_against
import rtr

HITS_MOST = 30  # of PyTorch's functions in a step of a rank, as the issue has it, of four micro-batches, too
WIRE_TORCH, WIRE_TORCH_GROUPS = 8, 10

job.need_root()
rng, seed = job.seed()


def groups_check(j, name, expected):
    """Every operation is its process group's next one, as PyTorch counts: Send and Recv apart. The first that are seen
    may have been called before the probes were in place."""
    seqs, names, n = {}, set(), 0
    ops = sorted(j.replay("--ops"), key=lambda o: o["t_ns"])
    for o in ops:
        of = (o["rank"], o["comm"], o["peer"] is not None)
        if of not in seqs and "process_group" not in o:
            continue
        want = seqs.get(of, o["process_group_seq"] - 1) + 1
        job.check(o.get("process_group_seq") == want, f"{name}: number {want} of its process group is {o}")
        seqs[of], n = want, n + 1
        names.add(o["process_group"])
    job.check(n > 0.5 * len(ops), f"{name}: of {len(ops)} operations {n} have a process group")
    job.check(names == expected, f"{name}: process groups {names}, not {expected}")


def run(name, args, record_args=()):
    """(the job, its own steps, those that were seen), when it is over."""
    folder = tempfile.mkdtemp(prefix=f"ranktrace-steps-{name}-")
    job.dirs.append(folder)
    log = f"{folder}/steps.jsonl"
    j = job.Job(["--seed", seed, "--ranks", 2, "--step-ms", 20, "--step-log", log, "--quiet", *args], record_args,
                name=name)
    j.process.wait(90)
    job.check("not visible" not in j.stderr(), f"{name}: all of the stand-in is visible: {j.stderr()}")
    return j, job.lines(log), [s for s in j.replay("--steps") if "step" in s]


def phase_ns(t, phase):
    return t[phase + "_ns"]


def is_preempted(t, phase):
    return t.get(phase + "_preempted", False)


def hits_check(j, name, truth):
    """The job makes one step more than it logs."""
    n = collections.Counter(tracer for tracer, *_ in rtr.whole_records(j.rtr))
    steps = len(truth) + 2
    backwards = sum(t["backwards"] for t in truth) / len(truth)
    print(f"{name}: {n[WIRE_TORCH] / steps:.1f} hits a step and rank of {backwards:.0f} micro-batches, and "
          f"{n[WIRE_TORCH_GROUPS] / steps:.1f} of process groups", flush=True)
    job.check(n[WIRE_TORCH] / steps <= HITS_MOST, f"{name}: {n} in {steps} steps")


def case(name, *args):
    n = held_against.Comparison(name)
    j, truth, seen = run(name, args)
    for rank in range(2):
        own = [t for t in truth if t["rank"] == rank]
        pairs = held_against.steps_pair(own, [s for s in seen if s["rank"] == rank], True)
        for t, s in pairs:
            job.check(t["backwards"] == s["backwards"], f"{name}: {t} is not {s}")
        n.add(pairs, phase_ns, is_preempted)
    print(f"{name}: {len(truth)} steps", flush=True)
    groups_check(j, name, {"default_pg", "mesh_pp" if "pp=2" in args else "mesh_dp"})
    n.check()
    hits_check(j, name, truth)
    return truth


def sharded():
    n = held_against.Comparison("sharded, without ranges")
    j, truth, seen = run("sharded", ["--sharded", "--steps", 200, "--script-ranges", 400], ["--budget", "3"])
    gone = {}
    for ts, pid, group in held_against.groups_gone(j.rtr):
        job.check(pid in gone or group == held_against.RANGES, f"group {group} goes first")
        gone.setdefault(pid, ts)
    job.check(len(gone) == 2, f"400 ranges in each step cost too little: {gone} {j.stderr()}")
    for pid, ts in gone.items():
        own = [t for t in truth if t["pid"] == pid]
        pairs = held_against.without_ranges_pair(own, [s for s in seen if s["pid"] == pid], ts)
        for t, s in pairs:
            job.check(s["forward_by"] == "gather", f"its forward gathers: {s}")
            job.check(0 < s["optimizer_ns"] <= t["optimizer_ns"] * 1.01 + 1e6, f"optimizer without ranges: {s} {t}")
        n.add(pairs, phase_ns, is_preempted)
    n.check()


def longest(truth, rank, phase):
    return max(t[phase + "_ns"] for t in truth if t["rank"] == rank) / 1e6


slow = case("slow", "--steps", 60, "--workers", 4, "--fault", "slow-host:rank=1,ms=15,step=20", "--fault",
            "loader:rank=0,ms=250,step=20")
job.check(longest(slow, 1, "backward") > 14, "the backward was not slow")
job.check(longest(slow, 0, "data_wait") > 50, "the worker was not slow")
grown = case("grow", "--steps", 50, "--microbatches", 4, "--fault", "grow:ms=1,step=10,what=optimizer", "--fault",
             "compile:rank=1,step=40,sec=1")
job.check(longest(grown, 0, "optimizer") > 30, "steps did not grow")
job.check(longest(grown, 1, "forward") > 950, "nothing was compiled")
noise = case("noise", "--steps", 60, "--layout", "pp=2", "--fault", "gc:rate=0.1", "--fault", "io:ms=100")
job.check(max(longest(noise, r, "gc") for r in range(2)) >= 20, "nothing was collected")
sharded()
