# SPDX-License-Identifier: Apache-2.0
"""A job that waits for its GPU in each step is not probed where it asks CUDA whether work is done: its waits show all
ends, and a hit less is step time. When its GPUs stand still these probes come back, and the rank is named as ever. A
job whose queries show ends before its waits do keeps them."""
import collections
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import gpus
import job
import rtr

WIRE_CUDA, QUERIES = 4, (5, 8)
GONE, AGAIN = "not probed for now: waits show all ends", "are probed again"
CLOSED_NS, AGAIN_NS = 1_500_000_000, 3_000_000_000
FAULT_STEP = 600


def said(j, text, n, timeout):
    """When it was, that often."""
    end = time.monotonic() + timeout
    while j.stderr().count(text) < n:
        job.check(time.monotonic() < end, f"'{text}' was not said {n} times in {timeout} s: {j.stderr()}")
        time.sleep(0.1)
    return time.monotonic_ns()


def queries(j):
    """Times of each process' queries."""
    times = collections.defaultdict(list)
    for tracer, kind, pid, _, ts, _ in rtr.whole_records(j.rtr):
        if tracer == WIRE_CUDA and kind in QUERIES:
            times[pid].append(ts)
    return times


def spared(rng):
    gpus.use()
    rank = rng.randrange(2)
    j = job.Job(["--ranks", 2, "--steps", 4000, "--step-ms", 20, "--seed", rng.randrange(1 << 30), "--fault",
                 f"spin:rank={rank},step={FAULT_STEP},what=all-sms,how=late"], name="spared")
    gone_ns = said(j, GONE, 2, 60)
    truth = j.wait_fault(90, "spin")
    job.check(truth and truth["t_ns"] > gone_ns + 2 * CLOSED_NS, f"too soon for a look: {truth}")
    said(j, AGAIN, 2, 30)
    f = j.wait_finding(60, kind="hang", **{"class": "inside_gpu"})
    job.check(f and f["ranks"] == [rank], f"rank {rank}: {j.findings}\n{j.stderr()}")
    time.sleep(AGAIN_NS / 1e9)  # a watchdog asks ten times a second
    j.stop()
    times = queries(j)
    job.check(len(times) == 2, f"queries of {list(times)}")
    for pid, asked in times.items():
        between = [t for t in asked if gone_ns + CLOSED_NS < t < truth["t_ns"]]
        job.check(not between, f"{len(between)} queries of pid {pid} were probed while they are spared")
        job.check(any(t > truth["t_ns"] for t in asked), f"none of pid {pid} was when its GPU stood")
    before = [o for o in j.replay("--ops") if o["t_ns"] < truth["t_ns"] - 1e9]
    still = [o for o in before if not o["end_ns"]]
    job.check(len(before) > 1000 and not still, f"{len(still)} of {len(before)} operations without an end: {still[:3]}")
    print(f"  rank {rank} named {(f['t_ns'] - truth['t_ns']) / 1e9:.1f} s after the fault; {len(before)} ends by waits")


def kept(rng):
    j = job.Job(["--ranks", 2, "--steps", 150, "--step-ms", 60, "--seed", rng.randrange(1 << 30), "--poll-hz", 200],
                name="kept")
    job.check(j.end(90) == 0, f"exit code is not 0: {j.stderr()}")
    job.check(GONE not in j.stderr(), f"its queries show ends: {j.stderr()}")
    print(f"  kept: {sum(map(len, queries(j).values()))} queries")


job.need_root()
rng, _ = job.seed()
spared(rng)
kept(rng)
