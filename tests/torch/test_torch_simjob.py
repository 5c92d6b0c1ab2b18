# SPDX-License-Identifier: Apache-2.0
# runs alone: the phases of ranks are compared with the ranks' own clocks, to the millisecond
"""The simulated job with PyTorch's marks: every phase of every step is as long as its step log says, within 1 ms + 1 %,
whatever is done to it: a slow backward, one slow data worker, steps that grow, a compilation, collections, slow
storage; with micro-batches and a pipeline, too. Where the thread lost its CPU between stamp and mark, the two differ by
that: one phase of ten at most."""
import collections
import sys
import tempfile

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import held_against

EXCUSED_MOST = 0.1

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


def case(name, *args):
    folder = tempfile.mkdtemp(prefix=f"ranktrace-steps-{name}-")
    job.dirs.append(folder)
    log = f"{folder}/steps.jsonl"
    j = job.Job(["--seed", seed, "--ranks", 2, "--step-ms", 20, "--step-log", log, "--quiet", *args], name=name)
    j.process.wait(90)
    job.check("not visible" not in j.stderr(), f"{name}: all of the stand-in is visible: {j.stderr()}")
    truth, seen, n = job.lines(log), [s for s in j.replay("--steps") if "step" in s], collections.Counter()
    for rank in range(2):
        own = [t for t in truth if t["rank"] == rank]
        pairs = held_against.steps_pair(own, [s for s in seen if s["rank"] == rank], True)
        for t, s in pairs:
            job.check(t["backwards"] == s["backwards"], f"{name}: {t} is not {s}")
        n += held_against.phases_compare(pairs, lambda t, phase: t[phase + "_ns"],
                                   lambda t, phase: t.get(phase + "_preempted", False))
    print(f"{name}: {len(truth)} steps, {dict(n)}", flush=True)
    groups_check(j, name, {"default_pg", "mesh_pp" if "pp=2" in args else "mesh_dp"})
    job.check(n["preempted"] <= EXCUSED_MOST * n["compared"], f"{name}: too many differ: {n}")
    return truth


def longest(truth, rank, phase):
    return max(t[phase + "_ns"] for t in truth if t["rank"] == rank) / 1e6


slow = case("slow", "--steps", 60, "--workers", 4, "--fault", "slow-host:rank=1,ms=15,step=20", "--fault",
            "loader:rank=0,ms=250,step=20")
job.check(longest(slow, 1, "backward") > 14, "the backward was not slow")
job.check(longest(slow, 0, "data_wait") > 50, "the worker was not slow")
grown = case("grow", "--steps", 50, "--microbatches", 2, "--fault", "grow:ms=1,step=10,what=optimizer", "--fault",
             "compile:rank=1,step=40,sec=1")
job.check(longest(grown, 0, "optimizer") > 30, "steps did not grow")
job.check(longest(grown, 1, "forward") > 950, "nothing was compiled")
noise = case("noise", "--steps", 60, "--layout", "pp=2", "--fault", "gc:rate=0.1", "--fault", "io:ms=100")
job.check(max(longest(noise, r, "gc") for r in range(2)) >= 20, "nothing was collected")
