# SPDX-License-Identifier: Apache-2.0
"""Probes that cost a process more than its budget are taken away, those that are needed least first: their records end, those of
NCCL's operations are complete, a stopped rank is named all the same, and a replay tells it all again."""
import os
import re
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import faults
import job
import rtr

FACT_BUDGET = 15
COST, SHED, BACK, KEPT, WATCH = range(5)
NEEDED, CALLS, POLLS, POSTS, BURST, EVENTS = range(6)
MARK_QUERY, STREAM_QUERY, LAUNCH = 5, 8, 11
GONE_NS = 1_500_000_000  # links are closed one after the other, a grace period each, on a busy machine


class Told:
    def __init__(self, pid, ts, body):
        self.pid, self.ts = pid, ts
        (_, ppm, self.hits, self.node_hits, self.cost_ns, self.node_cost_ns, self.what, self.group, self.shed, self.flags,
         _) = struct.unpack_from("<IIQQIIBBBBI", body)
        self.share, self.budget = self.hits * self.cost_ns * 1e-9, ppm * 1e-6


def told(path):
    if not os.path.exists(path) or os.path.getsize(path) < 16:
        return []
    return [Told(pid, ts, body) for tracer, kind, pid, _, ts, body in rtr.whole_records(path) if (tracer, kind) == (rtr.FACT, FACT_BUDGET)]


def sheds(path, group):
    return {t.pid: t for t in told(path) if t.what == SHED and t.group == group}


def check_gone(path, by_pid, kinds, what):
    """The records of a group, of each process: some before it went, none after."""
    before, after = dict.fromkeys(by_pid, 0), dict.fromkeys(by_pid, 0)
    for tracer, kind, pid, _, ts, _ in rtr.whole_records(path):
        if tracer == rtr.CUDA and kind in kinds and pid in by_pid:
            before[pid] += ts < by_pid[pid].ts
            after[pid] += ts > by_pid[pid].ts + GONE_NS
    job.check(all(before.values()), f"{what}: none of some process were seen before they went: {before}")
    job.check(not any(after.values()), f"{what}: still seen {GONE_NS / 1e9} s after they went: {after}")
    return before


def lines(path):
    out = subprocess.run([job.RANKTRACE, "replay", "-q", path], capture_output=True, text=True)
    return [line for line in out.stdout.splitlines() if re.match(r"\S+ process \d+", line)]


def check_lines(path, words):
    """Told once each, in words, and again in the same ones."""
    said = lines(path)
    number = r"[\d,]+ probe hits a second x [\d.]+ us = [\d.]+ % of a core"
    good = re.compile(r"\S+ process \d+ \(rank \d+\): " + number + r", over its budget of [\d.]+ %: ")
    job.check(len(said) == sum(t.what != COST for t in told(path)), f"{len(said)} lines:\n" + "\n".join(said))
    job.check(all(good.match(line) for line in said), "\n".join(said))
    job.check(sum(words in line for line in said), f"nobody said '{words}':\n" + "\n".join(said))
    job.check(lines(path) == said, "a second replay tells it otherwise")


def check_trace(path):
    out = subprocess.run(["python3", "-B", "tools/check_pftrace.py", path], capture_output=True, text=True)
    job.check(out.returncode == 0, out.stdout + out.stderr)


def check_summary(j, n):
    text = j.stderr()
    job.check(re.search(r"\d+ probe hits of [\d.]+ us \((measured|assumed)\): [\d.]+ s of CPU time", text), f"no sum:\n{text}")
    job.check(f"probe groups removed {n} times" in text, f"not told how often probes went ({n}):\n{text}")


def wait_shed(j, group, pids, timeout):
    end = time.monotonic() + timeout
    while True:
        by_pid = sheds(j.rtr, group)
        if by_pid.keys() >= pids:
            return by_pid
        job.check(time.monotonic() < end and j.process.poll() is None,
                  f"{sorted(by_pid)} of {sorted(pids)} lost group {group} within {timeout} s\n{j.stderr()}")
        time.sleep(0.5)


def ranks_of(j, n, timeout=60):
    """pid of each rank, from the job's own log."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        pids = {o["rank"]: o["pid"] for o in job.lines(j.ops_log)}
        if len(pids) == n:
            return pids
        time.sleep(0.2)
    job.fail("the job does not start")


def polls(rng, number):
    """A watchdog that polls all the time; then a rank stops."""
    j = job.Job(["--ranks", 4, "--steps", 100000, "--step-ms", 400, "--poll-hz", 20000, "--seed", number], ["--budget", 0.06],
                name="governor")
    pids = ranks_of(j, 4)
    by_pid = wait_shed(j, POLLS, set(pids.values()), 60)
    for t in by_pid.values():
        job.check(t.share > t.budget or t.share > 0.7 * t.budget, f"shed at {t.share:.4f} of a core, budget {t.budget}")
        job.check(abs(t.budget - 0.0006) < 1e-9 and t.shed >> POLLS & 1 and not t.shed >> NEEDED & 1, vars(t))
    time.sleep(4)
    rank = rng.randrange(4)
    os.kill(pids[rank], signal.SIGSTOP)
    try:
        f = j.wait_finding(30, kind="hang", phase="open")
    finally:
        os.kill(pids[rank], signal.SIGCONT)
    job.check(f and f["ranks"] == [rank] and f["class"] == "stopped", f"rank {rank} was stopped: {j.findings}\n{j.stderr()}")
    j.stop()
    before = check_gone(j.rtr, by_pid, (MARK_QUERY, STREAM_QUERY), "polls")
    check_lines(j.rtr, "cuEventQuery and cuStreamQuery are no longer probed")
    check_summary(j, sum(t.what in (SHED, WATCH) for t in told(j.rtr)))
    check_trace(j.trace)
    j.check_replay()
    shares = ", ".join(f"{100 * t.share:.2f} %" for t in by_pid.values())
    print(f"  polls went at {shares} of a core ({sum(before.values())} of them seen); rank {rank} was found stopped")


def launches(number):
    """A job whose every launch is probed, to its end: what goes first, and what never goes."""
    j = job.Job(["--ranks", 2, "--steps", 150, "--step-ms", 100, "--layers", 48, "--seed", number],
                ["--tier", "burst", "--budget", 0.25, "--budget-node", "no"], name="governor")
    code = j.end(180)
    job.check(code == 0, f"exit code {code}: {j.findings}")
    by_pid = sheds(j.rtr, BURST)
    pids = {o["pid"] for o in job.lines(j.ops_log)}
    job.check(by_pid.keys() == pids, f"{sorted(by_pid)} of {sorted(pids)} lost their launches\n{j.stderr()}")
    for pid in pids:
        mine = [t.group for t in told(j.rtr) if t.pid == pid and t.what == SHED]
        job.check(mine[0] == BURST and NEEDED not in mine, f"pid {pid} lost groups {mine}")
    before = check_gone(j.rtr, by_pid, (LAUNCH,), "launches")
    missing, extra = job.compare_ops(job.lines(j.ops_log), j.replay("--ops"))
    job.check(not missing and not extra, f"operations: missing {missing[:5]}, extra {extra[:5]}")
    check_lines(j.rtr, "launches, asynchronous copies and asynchronous allocations are no longer probed")
    check_summary(j, sum(t.what in (SHED, WATCH) for t in told(j.rtr)))
    check_trace(j.trace)
    j.check_replay()
    print(f"  {sum(before.values())} launches seen until they went; all operations of the job seen")


def without(number):
    j = job.Job(["--ranks", 2, "--steps", 40, "--step-ms", 100, "--layers", 48, "--seed", number], ["--tier", "burst", "--budget=no",
                "--budget-node=no"], name="governor")
    job.check(j.end(120) == 0, f"{j.findings}")
    job.check(not told(j.rtr), "a budget without one")
    job.check("probe hits" not in j.stderr(), j.stderr())


def bad_values():
    for value in ("lots", "0", "-1", "1e9", "2%"):
        for option in ("--budget", "--budget-node"):
            out = subprocess.run([job.RANKTRACE, "record", f"{option}={value}", "--all"], capture_output=True, text=True)
            job.check(out.returncode == 2 and "percentage of a core" in out.stderr, f"{option}={value}: {out.returncode} {out.stderr}")


def main():
    job.need_root()
    rng, _ = job.seed()
    bad_values()
    _, _, number = faults.draw(rng)
    if "attach" in os.environ.get("RANKTRACE_KERNEL_LACKS", ""):
        job.skip("probes cannot be taken from one process")
    polls(rng, number)
    launches(number)
    without(number)


if __name__ == "__main__":
    main()
