# SPDX-License-Identifier: Apache-2.0
"""Known workload: a job whose own log says what it called, and what replay --ops has to say of it.

What runs in a graph's launch is in both, marked "graph" and numbered by itself; what was only captured is in neither.
"""
import collections
import os
import shutil

import job
import rtr


def keep(j):
    """What a difference has to be explained by: the recording and the job's log, beside the logs of the tests."""
    where = os.path.join(os.environ.get("O", "build"), "tests", "log")
    for path in (j.rtr, j.ops_log) if os.path.isdir(where) else ():
        to = os.path.join(where, f"{os.path.basename(j.dir)}.{os.path.basename(path)}")
        shutil.copy(path, to)
        print(f"  kept: {os.path.realpath(to)}")


def compare(truth, seen, what, stderr="", of=None):
    missing, extra = job.compare_ops(truth, seen)
    graphs = sum(1 for o in truth if o.get("graph"))
    print(f"  {what}: {len(truth)} operations, {graphs} of them in graphs; {len(missing)} missing, {len(extra)} extra")
    if of and (missing or extra):
        keep(of)
    job.check(not missing, f"not seen: {missing[:5]}\n{stderr}")
    job.check(not extra, f"seen but never called: {extra[:5]}")


def whole(ranks, layout, seed, *options, steps=23, timeout=60, name="known", record_args=()):
    """Traced from its first call on: none missing, none extra, no finding, and a replay says the same."""
    j = job.Job(["--ranks", ranks, "--steps", steps, "--layout", layout, "--seed", seed, *options],
                record_args=(*job.NO_BUDGET, *record_args), name=name)
    code = j.end(timeout)
    truth, seen = job.lines(j.ops_log), j.replay("--ops")
    job.check(truth, "the job logged nothing")
    compare(truth, seen, f"{ranks} ranks, {layout}", j.stderr(), j)
    open_ends = [o for o in seen if o["end_ns"] is None]
    job.check(not open_ends, f"{len(open_ends)} operations have no end: {open_ends[:3]}")
    job.check(code == 0 and not j.opened(), f"findings in a healthy job: {j.opened()}")
    j.check_replay()
    return j, truth, seen


def middle(ranks, layout, seed, *options, steps=150, attach_after=1.0):
    """Attached while it runs: the same from the last probe on, with NCCL's own numbers."""
    j = job.Job(["--ranks", ranks, "--steps", steps, "--layout", layout, "--seed", seed, *options],
                job.NO_BUDGET, attach_after=attach_after, name="middle")
    j.end()
    seen = j.replay("--ops")
    job.check(seen, f"nothing seen after a late attach: {j.stderr()}")
    attached = rtr.attached_ns(j.rtr, rtr.NCCL)
    pids = {o["pid"] for o in seen}
    job.check(len(pids) == ranks, f"operations of {len(pids)} of {ranks} ranks")
    # a line's time is just before its call, and one thread makes all calls of a rank: what was logged after the last
    # probe was in has to be seen, and what is seen before the first such line belongs to an earlier one
    log = job.lines(j.ops_log)
    truth = [o for o in log if o["t_ns"] >= attached[o["pid"]]]
    begin = {pid: min(o["t_ns"] for o in truth if o["pid"] == pid) for pid in pids}
    seen = [o for o in seen if o["t_ns"] >= begin[o["pid"]]]
    collective = [o for o in truth if o["op"] in job.COUNTED], [o for o in seen if o["op"] in job.COUNTED]
    compare(*collective, f"{ranks} ranks, {layout}, attached in the middle, collectives", of=j)
    job.check(min(o["seq"] for o in collective[1]) > 0, "attached before the start?")
    # Send and Recv have no counter in NCCL: numbered from the attach, marked as such, and otherwise the same
    p2p = [[dict(o, seq=0) for o in ops if o["op"] in ("Send", "Recv")] for ops in (truth, seen)]
    compare(*p2p, "point to point", of=j)
    job.check(all(o.get("seq_from_attach") for o in seen if o["op"] in ("Send", "Recv")), "P2P not marked")


def count(ops):
    return collections.Counter(o["op"] for o in ops)
