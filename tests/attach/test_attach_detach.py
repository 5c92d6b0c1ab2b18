# SPDX-License-Identifier: Apache-2.0
# runs alone: sessions by the dozen beside a job of 10 ms steps fill two CPUs
"""Twenty sessions (LONG=1: fifty) on one busy job: each sees every operation of its middle and none that was not, the
job goes on through all of them, and nothing of them is left in the kernel."""
import bisect
import collections
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import bpf_objects
import job
import rtr

STEP_MS = "10" if job.LONG else "25"
SESSIONS = int(os.environ.get("SESSIONS", "50" if job.LONG else "20"))


def open_fds(pids):
    return {pid: len(os.listdir(f"/proc/{pid}/fd")) for pid in pids}


def key(o):
    """Send and Recv have no counter in NCCL: their numbers count from the attach."""
    seq = o["seq"] if o["op"] in job.COUNTED else None
    return o["comm"], o["op"], o["count"], o["dtype"], o["peer"], seq


def by_rank(ops):
    ranks = collections.defaultdict(list)
    for o in sorted(ops, key=lambda o: o["t_ns"]):
        ranks[o["pid"]].append(o)
    return ranks


def compare(truth, seen, from_ns, to_ns, what):
    """One thread of a rank makes all its calls, and logs each just before: a call seen is that of the last line before
    it, however long the thread was kept from the CPU in between. Nothing is seen twice, or out of order; and all is
    seen that was logged after the last probe was in, and returned (the next line says so) before the last record that
    was taken."""
    times, at = [o["t_ns"] for o in truth], -1
    hit = set()
    for o in seen:
        i = bisect.bisect_right(times, o["t_ns"]) - 1
        job.check(i > at and key(truth[i]) == key(o), f"{what}: seen {o}, called {truth[max(i, 0)]}, {i} after {at}")
        at = i
        hit.add(i)
    due = [i for i in range(len(truth) - 1) if times[i] >= from_ns and times[i + 1] <= to_ns]
    missing = [truth[i] for i in due if i not in hit]
    job.check(not missing, f"{what}: {len(missing)} of {len(due)} not seen: {missing[:3]}")
    return len(due)


def session(where, pid, n):
    """The recording, and the BPF objects that the session was seen to have."""
    path, objects = f"{where}/{n}.rtr", set()
    with open(f"{where}/log", "w+") as log:
        p = subprocess.Popen([job.RANKTRACE, "record", "-q", "--json", *job.NO_BUDGET, "--pid", str(pid), "-d", "0.2",
                              "-o", path],
                             stdout=log, stderr=log)
        while p.poll() is None:
            objects |= bpf_objects.of_process(p.pid)
            time.sleep(0.1)
        log.seek(0)
        text = log.read()
    job.check(p.returncode == 0 and not text, f"session {n}: {p.returncode} {text}")
    return path, objects


def ops_of(path):
    out = subprocess.run([job.RANKTRACE, "replay", "-q", "--ops", path], capture_output=True, text=True)
    return by_rank(map(json.loads, out.stdout.splitlines()))


def main():
    job.need_root()
    _, number = job.seed()
    ranks = 8
    where = tempfile.mkdtemp(prefix="ranktrace-attach-")
    job.dirs.append(where)
    log = f"{where}/ops.jsonl"
    sim = subprocess.Popen([job.RANKTRACE, "sim", "job", "--quiet", "--ranks", str(ranks), "--steps", "1000000",
                            "--step-ms", STEP_MS,
                            "--layout", "tp=2,dp=2,pp=2", "--seed", str(number), "--log", log])
    end = time.monotonic() + 30
    while len(by_rank(job.lines(log))) < ranks and time.monotonic() < end:
        time.sleep(0.5)
    pids = sorted(by_rank(job.lines(log)))
    job.check(len(pids) == ranks, f"{len(pids)} of {ranks} ranks run")
    time.sleep(1)
    fds = open_fds(pids)
    begin, paths, objects = time.monotonic(), [], set()
    for n in range(SESSIONS):
        path, mine = session(where, sim.pid, n)
        paths.append(path)
        objects |= mine
        job.check(sim.poll() is None, f"the job died in session {n}")
    took, stop_ns = time.monotonic() - begin, time.monotonic_ns()
    time.sleep(0.5)
    job.check(open_fds(pids) == fds, f"files open in the ranks: {fds} before, {open_fds(pids)} after")
    time.sleep(1)
    sim.terminate()
    sim.wait(20)
    truth, seen, compared = by_rank(job.lines(log)), collections.Counter(), 0
    for path in paths:
        ops, attached = ops_of(path), rtr.attached_ns(path, rtr.NCCL)
        to_ns = max((of[-1]["t_ns"] for of in ops.values()), default=0)
        for pid, of in ops.items():
            seen[pid] += len(of)
            compared += compare(truth[pid], of, attached[pid], to_ns, f"{path}, pid {pid}")
    job.check(max(of[-1]["t_ns"] for of in truth.values()) > stop_ns, "the job did not go on")
    job.check(sorted(seen) == pids, f"operations of pids {sorted(seen)}, not {pids}")
    job.check(compared > (50 if job.LONG else 10) * SESSIONS, f"only {compared} operations had to be seen")
    links = bpf_objects.count(objects, "link")
    job.check(links > 10 * SESSIONS, f"only {links} links: this test would prove nothing")
    end = time.monotonic() + 10
    while bpf_objects.left(objects) and time.monotonic() < end:
        time.sleep(0.2)
    job.check(not bpf_objects.left(objects), f"left in the kernel: {bpf_objects.left(objects)}")
    print(f"{SESSIONS} sessions in {took:.1f} s; {sum(seen.values())} operations seen, each the one that the job "
          f"called, {compared} "
          f"that had to be seen; {links} links, none left")


main()
