# SPDX-License-Identifier: Apache-2.0
"""Known workload in CUDA graphs: what runs in launches is seen as often as it runs, what is captured is not an
operation.

Eager and graph operations mix on one communicator; the eager ones' numbers are NCCL's, which leave graphs out.
"""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import known


def whole(graph, ranks, layout):
    j, truth, seen = known.whole(ranks, layout, rng.randrange(1 << 30), "--graph", graph, "--extra-ops",
                                 name=f"graph-{graph}")
    # without tensor parallelism nothing of a layer is communicated
    job.check(any(o.get("graph") for o in truth) or (graph == "layers" and "tp=1" in layout), "nothing ran in a graph")
    job.check(any(not o.get("graph") for o in truth), "nothing ran outside of a graph")


def met_late():
    """Captured before the attach: what runs in them is not known, and nobody is judged by it."""
    j = job.Job(["--ranks", 4, "--steps", 150, "--layout", "tp=2,dp=2,pp=1", "--seed", rng.randrange(1 << 30),
                 "--graph", "step"],
                attach_after=2.0, name="late")
    code = j.end()
    seen = j.replay("--ops")
    job.check(seen and not any(o.get("graph") for o in seen), f"eager operations only, but: {seen[:3]}")
    job.check(code == 0 and not j.opened(), f"findings in a healthy job: {j.opened()}")
    j.check_replay()
    print(f"  graphs captured before the attach: {len(seen)} eager operations, no finding")


job.need_root()
rng, number = job.seed()
for mode in "step", "layers":
    for n, one in (2, "tp=1,dp=2,pp=1"), (4, "tp=2,dp=1,pp=2"), (8, "tp=2,dp=2,pp=2"):
        whole(mode, n, one)
met_late()
