# SPDX-License-Identifier: Apache-2.0
"""Several ranks in one process, and ranks that all wait: two communicators in opposite order, a creation that one of
them misses, an operation that one calls otherwise. Named are the ranks, as where each has a process."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import faults
import job
import outside
import shared


def shaped(shape, *more):
    return ["--ranks-per-process", "2", f"--threads={shape}", *more]


def ordered(rng, shape, host):
    """A session that comes later: who waits in what is known by thread, and where each of them is. One thread waits for
    the first of its ranks, be it the one with the other order or not."""
    rank = rng.randrange(shared.RANKS)
    fault = f"deadlock:rank={rank},step=200,host={host}"
    with shared.begun(rng, shape, "--layout", "dp=4", "--fault", fault) as a:
        s = outside.Session(a, "record", "--budget=no")
        truth = a.wait_fault("deadlock")
        f = s.wait(20, kind="hang", **{"class": "deadlock"})
        job.check(f and sorted(f["ranks"]) == sorted(truth["ranks"]), f"not named: {s.findings}\n{truth}")
        e = f["evidence"]
        job.check(sorted(e["comms"].split(",")) == sorted(truth["comms"]), f"communicators {e}, {truth}")
        if shape == "each":
            job.check(e["other_order_ranks"] == str(rank), f"not {rank} has another order: {e}")
        thread = f"rank {rank} (gpu_{rank}, tid " if shape == "each" else "(pt_main_thread, tid "
        job.check(thread in e["cycle"], f"no thread: {e}")
        f = s.wait_for(lambda f: thread in f["evidence"].get("waiting_in", ""), 20)
        job.check(f, f"no call site of the thread: {s.findings}")
        s.stop()
        job.check(len({f["id"] for f in s.findings}) == 1, f"more than one finding: {s.findings}")
        place = f["evidence"]["waiting_in"].splitlines()
        print(f"  deadlock, {shape}, host {host}, attached late: {place}")


def main():
    job.need_root()
    rng, _ = job.seed()
    each, one = shaped("each"), shaped("one")
    ordered(rng, "each", "blocked")
    faults.deadlock(rng, "ahead", shaped("each", "--layout", "tp=2,dp=2"), ranks=4)
    faults.init(rng, rng.choice(("new", "split")), "sleep", each)
    faults.mismatch(rng, "count", rng.choice((each, one)))


main()
