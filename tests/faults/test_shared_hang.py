# SPDX-License-Identifier: Apache-2.0
"""Several ranks in one process, and a thread that does not come to its next collective. Of threads of their own the one
that sleeps is named, with its GPU, its rank and its call site, and no other of its process; one thread for several
ranks is named once, with all of them. With probes, and by NCCL's counters alone."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import outside
import shared


def hung(rng, shape, command):
    rank, step = rng.randrange(shared.RANKS), rng.randrange(260, 280)
    with shared.begun(rng, shape, "--fault", f"hang:rank={rank},step={step},sec=60") as a:
        s = outside.Session(a, command, "--budget=no", *(["--no-raise"] if command == "watch" else []))
        truth = a.wait_fault("hang")
        f = s.wait(30, kind="hang", phase="open")
        job.check(f, f"no hang found; findings: {s.findings}\n{s.stderr()}")
        job.check(f["class"] == "missing_enter", f"class {f['class']}: {f}")
        late = shared.ranks_of(shape, rank)
        e = shared.check_named(f, late, truth)
        job.check((truth["comm"], truth["seq"]) in outside.places(f), f"{f}, {truth}")
        job.check(command == "watch" or (f["comm"], f["seq"]) == (truth["comm"], truth["seq"]), f"{f}, {truth}")
        waiting = sorted(set("0123") - set(map(str, late)))
        job.check(sorted(e["waiting_ranks"].split(",")) == waiting, f"evidence {e}")
        if command == "record":  # a call tells whose thread it is
            is_main = e["tid"] == truth["pid"]
            job.check(is_main == (shape == "one"), f"thread {e}")
            job.check(shape == "one" or e["thread"] == f"gpu_{rank}", f"thread {e}")
        if command == "record" or shape == "one":
            f = s.wait_for(lambda f: "sleep_until" in f["evidence"].get("stack", ""), 10)
            job.check(f, f"no call site: {s.findings}")
        s.stop()
        hangs = [f for f in s.findings if f["kind"] == "hang"]
        job.check(all(sorted(f["ranks"]) == late for f in hangs), f"others are named: {hangs}")
        job.check(len({f["id"] for f in hangs}) == 1, f"named more than once: {hangs}")
        print(f"  {shape}, {command}: {e['member']}, {e.get('thread', 'no thread')} {e.get('tid', '')}")


def main():
    job.need_root()
    rng, _ = job.seed()
    for shape in shared.SHAPES:
        for command in ("record", "watch"):
            hung(rng, shape, command)


main()
