# SPDX-License-Identifier: Apache-2.0
"""Several ranks in one process: a thread in D state is named with the ranks that it calls for, and their peers' wait
is its consequence; a process that is stopped is named by its ranks that did not come. The signal may also come when
they had called all of their step: then the peers wait for no call of theirs, and the stop alone is the finding."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import outside
import shared


def blocked(rng, shape):
    rank = rng.randrange(shared.RANKS)
    with shared.begun(rng, shape, "--fault", f"dstate:rank={rank},step=150,sec=12") as a:
        s = outside.Session(a, "record", "--budget=no")
        truth = a.wait_fault("dstate")
        late = shared.ranks_of(shape, rank)
        f = s.wait(15, kind="d_state", phase="open")
        job.check(f, f"no D state found: {s.findings}")
        e = shared.check_named(f, late, truth)
        job.check(e["tid"] == truth["pid"] if shape == "one" else e["thread"] == f"gpu_{rank}", f"thread {e}")
        s.stop()
        named = [f for f in s.findings if f["kind"] in ("hang", "d_state")]
        job.check(all(sorted(f["ranks"]) == late for f in named), f"others are named: {named}")
        print(f"  {shape}: D state, {e['member']}, thread {e['thread']}")


def stopped(rng, shape):
    rank = rng.randrange(shared.RANKS)
    with shared.begun(rng, shape, "--fault", f"stop:rank={rank},step=150,sec=30") as a:
        s = outside.Session(a, "record", "--budget=no")
        truth = a.wait_fault("stop")
        f = s.wait_for(lambda f: f["kind"] == "stopped" or (f["kind"], f["class"]) == ("hang", "stopped"), 15)
        job.check(f and set(f["pids"]) == {truth["pid"]}, f"not named: {s.findings}")
        job.check(set(f["ranks"]) <= set(shared.ranks_of("one", rank)) and rank in f["ranks"], f"ranks {f}, {truth}")
        s.stop()
        job.check(not s.others_of(truth["pid"]), f"others: {s.findings}")
        print(f"  {shape}: {f['kind']}, stopped, {f['evidence']['member']}")


def main():
    job.need_root()
    rng, _ = job.seed()
    shape = rng.choice(shared.SHAPES)
    blocked(rng, shape)
    stopped(rng, shared.SHAPES[shape == "each"])


main()
