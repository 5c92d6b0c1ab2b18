# SPDX-License-Identifier: Apache-2.0
"""Known workload: replay --ops equals the job's own log, none more, none less; also when attached in the middle."""
import job

LAYOUTS = {2: ["tp=1,dp=2,pp=1", "tp=1,dp=1,pp=2"], 4: ["tp=1,dp=4,pp=1", "tp=2,dp=1,pp=2"],
           8: ["tp=1,dp=8,pp=1", "tp=2,dp=2,pp=2"]}


def whole(ranks, layout, seed, graph=None):
    j = job.Job(["--ranks", ranks, "--steps", 23, "--layout", layout, "--seed", seed, "--extra-ops",
                 *(["--graph", graph] if graph else [])], name="known")
    code = j.end()
    truth, seen = job.lines(j.ops_log), j.replay("--ops")
    missing, extra = job.compare_ops(truth, seen)
    launched = sum(bool(o.get("graph")) for o in truth)
    print(f"{ranks} ranks, {layout}, graph {graph}: {len(truth)} operations, {launched} of them in graphs, "
          f"{len(missing)} missing, {len(extra)} extra")
    job.check(truth, "the job logged nothing")
    job.check(not graph or launched, "no graph was launched")
    open_ends = [o for o in seen if o["end_ns"] is None]
    job.check(not open_ends, f"{len(open_ends)} operations have no end: {open_ends[:3]}")
    job.check(not missing, f"not seen: {missing[:5]}\n{j.stderr()}")
    job.check(not extra, f"seen but never called: {extra[:5]}")
    job.check(code == 0 and not j.opened(), f"findings in a healthy job: {j.opened()}")
    j.check_replay()


def graphs_met_late():
    """Captured before the attach: what runs in them is not known, and nobody is judged by it."""
    j = job.Job(["--ranks", 4, "--steps", 150, "--layout", "tp=2,dp=2,pp=1", "--seed", rng.randrange(1 << 30), "--graph", "step"],
                attach_after=2.0, name="late")
    code = j.end()
    seen = j.replay("--ops")
    job.check(seen and not any(o.get("graph") for o in seen), f"eager operations only, but: {seen[:3]}")
    job.check(code == 0 and not j.opened(), f"findings in a healthy job: {j.opened()}")
    j.check_replay()
    print(f"graphs captured before the attach: {len(seen)} eager operations, no finding")


def middle(ranks, layout, seed):
    j = job.Job(["--ranks", ranks, "--steps", 150, "--layout", layout, "--seed", seed], attach_after=2.0, name="middle")
    j.end()
    seen = j.replay("--ops")
    job.check(seen, f"nothing seen after a late attach: {j.stderr()}")
    first = {}
    for o in seen:
        first[o["pid"]] = min(first.get(o["pid"], o["t_ns"]), o["t_ns"])
    job.check(len(first) == ranks, f"operations of {len(first)} of {ranks} ranks")
    # t_ns of the log is taken just before the call, the probe's just inside: the first call seen may straddle
    truth = [o for o in job.lines(j.ops_log) if o["t_ns"] >= first[o["pid"]] - 200_000]
    collective = [o for o in truth if o["op"] in job.COUNTED], [o for o in seen if o["op"] in job.COUNTED]
    missing, extra = job.compare_ops(*collective)
    print(f"{ranks} ranks, {layout}, attached in the middle: {len(collective[0])} collectives, "
          f"{len(missing)} missing, {len(extra)} extra; lowest sequence seen {min(o['seq'] for o in collective[1])}")
    job.check(not missing and not extra, f"missing {missing[:5]} extra {extra[:5]}")
    job.check(min(o["seq"] for o in collective[1]) > 0, "attached before the start?")
    # Send and Recv have no counter in NCCL: numbered from the attach, marked as such, and otherwise the same
    p2p = [[dict(o, seq=0) for o in ops if o["op"] in ("Send", "Recv")] for ops in (truth, seen)]
    missing, extra = job.compare_ops(*p2p)
    job.check(not missing and not extra, f"point to point: missing {missing[:5]} extra {extra[:5]}")
    job.check(all(o.get("seq_from_attach") for o in seen if o["op"] in ("Send", "Recv")), "P2P not marked")


job.need_root()
rng, number = job.seed()
for n, layouts in LAYOUTS.items():
    for one in layouts:
        whole(n, one, rng.randrange(1 << 30))
for n, one, mode in ((2, "tp=1,dp=2,pp=1", "step"), (4, "tp=2,dp=1,pp=2", "step"), (4, "tp=2,dp=2,pp=1", "layers")):
    whole(n, one, rng.randrange(1 << 30), mode)
graphs_met_late()
middle(4, LAYOUTS[4][0], rng.randrange(1 << 30))
middle(8, LAYOUTS[8][1], rng.randrange(1 << 30))
