# SPDX-License-Identifier: Apache-2.0
"""ranktrace watch on ranks that wait where NCCL counts nothing, in an AlltoAll and in the creation of a communicator:
the one whose host sleeps elsewhere is named by where all hosts are, and stays named; nobody else is."""
import os
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import job
import outside

LIMIT_S, STAYS_S = 10 + 3, 4
EXPERTS = ("--life=experts", "--life-scale", 0.2)


def experts_step(number):
    """A step in which a layer of experts exchanges its tokens: the same in each run of that seed."""
    with autopsies.Autopsy(["--ranks", 4, "--steps", 90, "--step-ms", 5, "--seed", number, *EXPERTS]) as a:
        a.process.wait(60)
        return max(f["step"] for f in job.lines(a.fault_log) if f["fault"] == "life" and f["phase"] == "begin")


def asleep(rng, fault, waiting_in, number, *extra):
    rank = rng.randrange(4)
    args = ["--ranks", 4, "--steps", 100000, "--step-ms", 50, "--seed", number, *extra,
            "--fault", fault.format(rank=rank)]
    with autopsies.Autopsy(args) as a:
        s = outside.Session(a, "watch", "--no-raise")
        truth = a.wait_fault(fault.split(":")[0], 90)
        f = s.wait(LIMIT_S + job.bar(3), kind="hang", phase="open")
        outside.check_rank(s, f, rank, "missing_enter")
        late = (f["t_ns"] - truth["t_ns"]) / 1e9
        print(f"  {truth['op']}: rank {rank} after {late:.2f} s, its peers are in {f['evidence'].get('waiting_in')}")
        job.check(truth["op"] not in job.COUNTED and f["op"] is None, f"an operation that counts: {truth} {f}")
        job.check((f["severity"], f["evidence"]["known_from"]) == ("warning", "stacks"), f"{f}")
        job.check(waiting_in in f["evidence"]["waiting_in"] and f["evidence"]["n_waiting"] == 3, f"{f['evidence']}")
        time.sleep(STAYS_S)
        job.check(s.stop() == 1, "exit code is not 1")
        job.check(all(x["ranks"] == [rank] and x["phase"] != "close" for x in s.findings),
                  f"others are named, or it did not stay: {s.findings}")
        job.result(f"watch uncounted {truth['op']}", late)


job.need_root()
rng, _ = job.seed()
asleep(rng, "init:what=new,how=sleep,rank={rank},step=60", "ncclCommInitRank", rng.randrange(1 << 30))
seed = rng.randrange(1 << 30)
asleep(rng, f"hang:rank={{rank}},step={experts_step(seed)},op=0", "(libcuda.so.1)", seed, *EXPERTS)
