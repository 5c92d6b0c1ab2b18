# SPDX-License-Identifier: Apache-2.0
"""Fifty sessions on one busy job: each sees every operation of its middle and none that was not, the job goes on through
all of them, and nothing of them is left in the kernel."""
import bisect
import collections
import json
import os
import subprocess
import tempfile
import time

import job

SESSIONS = int(os.environ.get("SESSIONS", "50"))
OURS = ("nccl_", "cuda_", "sched_", "life_")


def bpftool(kind):
    out = subprocess.run(["bpftool", "-j", kind, "list"], capture_output=True, text=True)
    return json.loads(out.stdout or "[]")


def kernel_objects():
    """Ids of programs, links and maps that look like ours."""
    progs = {p["id"] for p in bpftool("prog") if p.get("name", "").startswith(OURS)}
    links = {link["id"] for link in bpftool("link") if link.get("prog_id") in progs}
    maps = {m["id"] for m in bpftool("map") if m.get("name") in ("targets", "rings", "ring_states", "drops", "ring")}
    return {("prog", i) for i in progs} | {("link", i) for i in links} | {("map", i) for i in maps}


def open_fds(pids):
    return {pid: len(os.listdir(f"/proc/{pid}/fd")) for pid in pids}


def key(o):
    """Send and Recv have no counter in NCCL: their numbers count from the attach."""
    seq = o["seq"] if o["op"] in job.COUNTED else None
    return o["rank"], o["comm"], o["op"], o["count"], o["dtype"], o["peer"], seq


def within(ops, begin_ns, end_ns):
    """`ops` in order of time."""
    a = bisect.bisect_left(ops, begin_ns, key=lambda o: o["t_ns"])
    b = bisect.bisect_right(ops, end_ns, key=lambda o: o["t_ns"])
    return collections.Counter(map(key, ops[a:b]))


def middle_exact(truth, seen, ranks):
    """Between the first operation of the rank that was seen last, and the last of the one that went first. The log's time
    is taken just before the call, the probe's just inside: 5 ms at both ends may belong to either."""
    first, last = {}, {}
    for o in seen:
        first[o["pid"]] = min(first.get(o["pid"], o["t_ns"]), o["t_ns"])
        last[o["pid"]] = max(last.get(o["pid"], 0), o["t_ns"])
    job.check(len(first) == ranks, f"operations of {len(first)} of {ranks} ranks")
    begin, end, slack = max(first.values()), min(last.values()), 5_000_000
    missing = within(truth, begin + slack, end - slack) - within(seen, begin, end)
    extra = within(seen, begin + slack, end - slack) - within(truth, begin, end)
    job.check(not missing and not extra, f"missing {list(missing)[:5]} extra {list(extra)[:5]}")
    return sum(within(seen, begin + slack, end - slack).values())


def session(where, pid, n):
    path = f"{where}/{n}.rtr"
    out = subprocess.run([job.RANKTRACE, "record", "-q", "--json", "--pid", str(pid), "-d", "0.2", "-o", path],
                         capture_output=True, text=True, timeout=30)
    job.check(out.returncode == 0 and not out.stdout, f"session {n}: {out.returncode} {out.stdout} {out.stderr}")
    return path


def ops_of(path):
    out = subprocess.run([job.RANKTRACE, "replay", "-q", "--ops", path], capture_output=True, text=True)
    return sorted((json.loads(line) for line in out.stdout.splitlines()), key=lambda o: o["t_ns"])


def main():
    job.need_root()
    _, number = job.seed()
    ranks = 8
    where = tempfile.mkdtemp(prefix="ranktrace-attach-")
    job.dirs.append(where)
    log = f"{where}/ops.jsonl"
    before = kernel_objects()
    sim = subprocess.Popen([job.RANKTRACE, "sim", "job", "--quiet", "--ranks", str(ranks), "--steps", "1000000", "--step-ms", "10",
                            "--layout", "tp=2,dp=2,pp=2", "--seed", str(number), "--log", log])
    time.sleep(2)
    pids = sorted({o["pid"] for o in job.lines(log)})
    job.check(len(pids) == ranks, f"{len(pids)} of {ranks} ranks run")
    fds = open_fds(pids)
    begin, paths = time.monotonic(), []
    for n in range(SESSIONS):
        paths.append(session(where, sim.pid, n))
        job.check(sim.poll() is None, f"the job died in session {n}")
    took, stop_ns = time.monotonic() - begin, time.monotonic_ns()
    time.sleep(0.5)
    job.check(open_fds(pids) == fds, f"files open in the ranks: {fds} before, {open_fds(pids)} after")
    sim.terminate()
    sim.wait(20)
    truth = sorted(job.lines(log), key=lambda o: o["t_ns"])
    seen = sum(middle_exact(truth, ops_of(path), ranks) for path in paths)
    job.check(truth[-1]["t_ns"] > stop_ns, "the job did not go on")
    job.check(seen > 50 * SESSIONS, f"only {seen} operations compared")
    end = time.monotonic() + 10
    while kernel_objects() - before and time.monotonic() < end:
        time.sleep(0.2)
    job.check(not kernel_objects() - before, f"left in the kernel: {kernel_objects() - before}")
    print(f"{SESSIONS} sessions in {took:.1f} s, {seen} operations of their middles equal to the job's log of {len(truth)}")


main()
