# SPDX-License-Identifier: Apache-2.0
"""Probes that cost a process more than its budget are taken away, those that are needed least first: their records end,
those of NCCL's operations are complete, a stopped rank is named all the same, and a replay shows it all again."""
import collections
import ctypes
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import faults
import job
import rtr

RECORD_BUDGET = 15
COST, SHED, BACK, KEPT, WATCH = range(5)
NEEDED, CALLS, POLLS, POSTS, BURST, EVENTS = range(6)
EVENT_RECORD, EVENT_WAIT, EVENT_QUERY, STREAM_QUERY, LAUNCH = 3, 4, 5, 8, 11
COMM_SAMPLE = 10  # a collector record
WINDOW_NS = 250_000_000
QUIET_NS = 1_000_000_000  # of a process that makes dozens of these calls in it
GONE_MOST_S = 60  # on a machine however busy; how long it may take is counted in closes of one probe:
CLOSES_MOST, CLOSES_MOST_OF_MANY = 10, 24
PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
PMU = "/sys/bus/event_source/devices/uprobe/type"
PERF_FLAG_FD_CLOEXEC = 8
ATTR_BYTES = 128
SHARE = r"[\d.]+ %"


class Told:
    def __init__(self, pid, ts, body):
        self.pid, self.ts = pid, ts
        (_, ppm, self.hits, self.node_hits, self.cost_ns, self.node_cost_ns, self.what, self.group, self.shed,
         self.flags, _) = struct.unpack_from("<IIQQIIBBBBI", body)
        self.share, self.budget = self.hits * self.cost_ns * 1e-9, ppm * 1e-6


def reported(path):
    if not os.path.exists(path) or os.path.getsize(path) < 16:
        return []
    return [Told(pid, ts, body) for tracer, kind, pid, _, ts, body in rtr.whole_records(path)
            if (tracer, kind) == (rtr.COLLECTOR, RECORD_BUDGET)]


def sheds(path, group):
    return {t.pid: t for t in reported(path) if t.what == SHED and t.group == group}


def is_cuda(kinds):
    return lambda tracer, kind: tracer == rtr.CUDA and kind in kinds


def last_seen(path, pids, wanted):
    """Of each process the time of the last record that is wanted, and of the last of all."""
    last, end = dict.fromkeys(pids, 0), dict.fromkeys(pids, 0)
    for tracer, kind, pid, _, ts, _ in rtr.whole_records(path):
        if pid in end:
            end[pid] = max(end[pid], ts)
            if wanted(tracer, kind):
                last[pid] = max(last[pid], ts)
    return last, end


def still_seen(path, pids, wanted):
    """The processes of which such records have not ended, though others go on; and the last such of each."""
    last, end = last_seen(path, pids, wanted)
    return [pid for pid in pids if end[pid] < last[pid] + QUIET_NS], last


def probe_open(path, offset):
    """A uprobe in this process alone, which does not map the file."""
    with open(PMU) as f:
        kind = int(f.read())
    name = ctypes.create_string_buffer(os.fsencode(path))
    attr = ctypes.create_string_buffer(ATTR_BYTES)
    struct.pack_into("<IIQQQQQIIQQ", attr, 0, kind, ATTR_BYTES, 0, 1, 0, 0, 0, 0, 0, ctypes.addressof(name), offset)
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(PERF_EVENT_OPEN[os.uname().machine], attr, os.getpid(), -1, -1, PERF_FLAG_FD_CLOEXEC)
    if fd < 0:
        raise OSError(ctypes.get_errno(), f"perf_event_open of a uprobe: {os.strerror(ctypes.get_errno())}")
    return fd


class Ruler(threading.Thread):
    """Opens and closes a probe again and again: how long the kernel takes for one, a grace period, in the very time
    that is judged. It changes with what else the host does."""

    def __init__(self):
        super().__init__(daemon=True)
        self.closes = []  # (begin, end)

    def run(self):
        while True:
            fd = probe_open("/bin/true", 0x1000)
            begin = time.monotonic_ns()
            os.close(fd)
            self.closes.append((begin, time.monotonic_ns()))

    def longest_ns(self, begin_ns, end_ns):
        """Of the closes that were under way in this time, or in the second before; of the next one where none was."""
        give_up = time.monotonic() + GONE_MOST_S
        while self.is_alive() and time.monotonic() < give_up and not (self.closes and self.closes[-1][1] > end_ns):
            time.sleep(0.05)
        since = [(begin, end) for begin, end in list(self.closes) if end > begin_ns - QUIET_NS]
        near = [end - begin for begin, end in since if begin < end_ns] or [end - begin for begin, end in since[:1]]
        return max(near, default=0)


ruler = Ruler()


def wait_gone(j, by_pid, wanted, what, most=CLOSES_MOST):
    """The records of a group have ended, of each process. The probes of a file are closed one after the other, those of
    several files together, which takes a grace period each: how long that is then is measured, not assumed."""
    end = time.monotonic() + GONE_MOST_S
    while True:
        still, last = still_seen(j.rtr, by_pid, wanted)
        if not still:
            break
        job.check(time.monotonic() < end and j.process.poll() is None,
                  f"{what}: still seen of pids {still} {GONE_MOST_S} s after they went\n{j.stderr()}")
        time.sleep(0.5)
    job.check(ruler.is_alive(), "no other probe is opened and closed: nothing is measured")
    for pid, t in by_pid.items():
        took_ns, one_ns = last[pid] - t.ts, ruler.longest_ns(t.ts, last[pid])
        print(f"  {what}, pid {pid}: the last {took_ns / 1e6:.0f} ms after they went; to close another probe took "
              f"{one_ns / 1e6:.0f} ms then")
        job.check(took_ns <= most * one_ns, f"{what}: seen for more than {most} times what it takes to close a probe")
    return last


def check_gone(path, by_pid, wanted, what, gone=None):
    """The records of a group, of each process: some before it went, and then they end, whatever the process goes on to
    do; with `gone`, from wait_gone(), by then. Returns how many came before."""
    before = dict.fromkeys(by_pid, 0)
    for tracer, kind, pid, _, ts, _ in rtr.whole_records(path):
        if pid in by_pid and wanted(tracer, kind):
            before[pid] += ts < by_pid[pid].ts
    job.check(all(before.values()), f"{what}: none of some process were seen before they went: {before}")
    still, last = still_seen(path, by_pid, wanted)
    job.check(not still, f"{what}: still seen in the last {QUIET_NS / 1e9} s of pids {still}")
    job.check(gone in (None, last), f"{what}: came back: the last were at {gone}, now at {last}")
    return before


def lines(path):
    out = subprocess.run([job.RANKTRACE, "replay", "-q", path], capture_output=True, text=True)
    return [line for line in out.stdout.splitlines() if re.match(r".* process \d+", line)]


def check_lines(path, words):
    """Told once each, in words, and again in the same ones."""
    said = lines(path)
    number = rf"[\d,]+ probe hits a second x [\d.]+ us = {SHARE} of a core"
    over = rf", (over its budget|all processes {SHARE}, over their budget) of {SHARE}: "
    good = re.compile(r".* process \d+ \(rank \d+\): " + number + over)
    job.check(len(said) == sum(t.what != COST for t in reported(path)), f"{len(said)} lines:\n" + "\n".join(said))
    job.check(all(good.match(line) for line in said), "\n".join(said))
    job.check(sum(words in line for line in said), f"nobody said '{words}':\n" + "\n".join(said))
    job.check(lines(path) == said, "a second replay shows it otherwise")


def check_trace(path):
    out = subprocess.run(["python3", "-B", "tools/check_pftrace.py", path], capture_output=True, text=True)
    job.check(out.returncode == 0, out.stdout + out.stderr)


def check_summary(j, n):
    text = j.stderr()
    job.check(re.search(r"\d+ probe hits of [\d.]+ us \((measured|assumed)\): [\d.]+ s of CPU time", text),
              f"no sum:\n{text}")
    job.check(f"probe groups removed {n} times" in text, f"not reported how often probes went ({n}):\n{text}")


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


def stopped_at(j, pids, rank):
    """The first hang while that rank is stopped."""
    before = len(j.findings)
    os.kill(pids[rank], signal.SIGSTOP)
    try:
        return j.wait_for(lambda: next((f for f in j.findings[before:]
                                        if f["kind"] == "hang" and f["phase"] == "open"), None), 30)
    finally:
        os.kill(pids[rank], signal.SIGCONT)


def stopped_is_named(j, pids, rank):
    """One that is stopped amid what all entered is late for none: it is called stopped, and the operation unfinished
    because of that. Then it is stopped again."""
    for _ in range(5):
        f = stopped_at(j, pids, rank)
        cause = f and f["cause"] == "all_entered" and next((c for c in j.findings if c["id"] == f["caused_by"]), None)
        if not cause:
            break
        job.check(cause["kind"] == "stopped" and cause["ranks"] == [rank], f"rank {rank} was stopped: {cause}")
        time.sleep(2)
    job.check(f and f["ranks"] == [rank] and f["class"] == "stopped",
              f"rank {rank} was stopped: {j.findings}\n{j.stderr()}")
    return f


def check_programs_are_paid_for(j, by_pid):
    """A poll's two hits cost more than their traps: our programs are in the price."""
    text = j.stderr()
    said = re.search(r"the trap of a probe hit costs ([\d.]+) to [\d.]+ us here.*?([\d.]+) us at its return", text)
    job.check(said, f"not reported what a trap costs:\n{text}")
    trap_ns = 500 * (float(said[1]) + float(said[2]))
    for t in by_pid.values():
        job.check(t.cost_ns > 1.05 * trap_ns, f"pid {t.pid}: a hit of {t.cost_ns} ns, a trap {trap_ns}")


def polls(rng, number):
    """A watchdog that polls all the time; then a rank stops."""
    j = job.Job(["--ranks", 4, "--steps", 100000, "--step-ms", 400, "--poll-hz", 20000, "--seed", number],
                ["--budget", 0.06], name="budget")
    pids = ranks_of(j, 4)
    by_pid = wait_shed(j, POLLS, set(pids.values()), 60)
    for t in by_pid.values():
        job.check(t.share > t.budget or t.share > 0.7 * t.budget, f"shed at {t.share:.4f} of a core, budget {t.budget}")
        job.check(abs(t.budget - 0.0006) < 1e-9 and t.shed >> POLLS & 1 and not t.shed >> NEEDED & 1, vars(t))
    gone = wait_gone(j, by_pid, is_cuda((EVENT_QUERY, STREAM_QUERY)), "polls")
    rank = rng.randrange(4)
    stopped_is_named(j, pids, rank)
    j.stop()
    before = check_gone(j.rtr, by_pid, is_cuda((EVENT_QUERY, STREAM_QUERY)), "polls", gone)
    check_lines(j.rtr, "cuEventQuery and cuStreamQuery are no longer probed")
    check_summary(j, sum(t.what in (SHED, WATCH) for t in reported(j.rtr)))
    check_programs_are_paid_for(j, by_pid)
    check_trace(j.trace)
    j.check_replay()
    shares = ", ".join(f"{100 * t.share:.2f} %" for t in by_pid.values())
    print(f"  polls went at {shares} of a core ({sum(before.values())} of them seen); rank {rank} was found stopped")


def cuda_events(path, pid):
    """The times of cuEventRecord and cuStreamWaitEvent, a trap each."""
    return sorted(ts for tracer, kind, p, _, ts, _ in rtr.whole_records(path)
                  if p == pid and tracer == rtr.CUDA and kind in (EVENT_RECORD, EVENT_WAIT))


def cost_over_time(times, hit_ns, begin_ns):
    """Of a core, window by window."""
    shares = collections.Counter(int((t - begin_ns) // WINDOW_NS) for t in times)
    return [shares[i] * hit_ns / WINDOW_NS for i in range(max(shares, default=-1) + 1)]


def above_s(shares, limit):
    """The longest time above the limit."""
    longest = now = 0
    for share in shares:
        now = now + 1 if share > limit else 0
        longest = max(longest, now)
    return longest * WINDOW_NS / 1e9


def check_promise(j, by_pid, budget, name):
    """By the records that hits led to, priced as the collector did."""
    lost = sum(struct.unpack_from("<Q", body)[0] for tracer, kind, _, _, _, body in rtr.whole_records(j.rtr)
               if (tracer, kind) == (rtr.COLLECTOR, rtr.RECORD_LOSS))
    job.check(not lost, f"{lost} records lost: what was paid is not known")
    for pid, t in by_pid.items():
        times = cuda_events(j.rtr, pid)
        shares = cost_over_time(times, t.cost_ns, times[0])
        print(f"  {name}, pid {pid}, budget {100 * budget:.2g} %, in steps of 250 ms, % of a core:",
              " ".join(f"{100 * share:.1f}" for share in shares[:16]))
        job.check(max(shares) > 2 * budget, f"never above twice the budget: nothing is tested: {shares}")
        job.check(above_s(shares, 2 * budget) <= 2,
                  f"above twice the budget for {above_s(shares, 2 * budget)} s: {shares}")


JAX = ["--ranks", 2, "--steps", 100000, "--step-ms", 200, "--cuda-events", 20000]


def events(rng, number, attach_after):
    """A job like JAX's: its CUDA events go, at once if it ran before; the rest is seen, and a stopped rank is named."""
    j = job.Job(JAX + ["--seed", number], ["--budget", 1], attach_after=attach_after, name="budget")
    pids = ranks_of(j, 2)
    by_pid = wait_shed(j, EVENTS, set(pids.values()), 60)
    gone = wait_gone(j, by_pid, is_cuda((EVENT_RECORD, EVENT_WAIT)), "CUDA events")
    stopped_is_named(j, pids, rng.randrange(2))
    j.stop()
    check_promise(j, by_pid, 0.01, "from its start" if attach_after is None else "attached to")
    check_gone(j.rtr, by_pid, is_cuda((EVENT_RECORD, EVENT_WAIT)), "CUDA events", gone)
    job.check(sorted(t.pid for t in reported(j.rtr) if t.what == SHED) == sorted(by_pid), "groups went more than once")
    check_lines(j.rtr, "cuEventRecord and cuStreamWaitEvent are no longer probed")
    j.check_replay()


def is_probed(tracer, _):
    return tracer in (rtr.CUDA, rtr.NCCL)


def nothing_is_left(rng, number):
    """A budget that nothing fits into: all probes go, which is said once; NCCL's counters go on, and who stops is
    named."""
    j = job.Job(JAX + ["--seed", number], ["--budget", 0.01], name="budget")
    pids = ranks_of(j, 2)
    end = time.monotonic() + 60
    while not (by_pid := {t.pid: t for t in reported(j.rtr) if t.what == WATCH}).keys() >= set(pids.values()):
        job.check(time.monotonic() < end, f"not all probes went\n{j.stderr()}")
        time.sleep(0.5)
    gone = wait_gone(j, by_pid, is_probed, "all probes", CLOSES_MOST_OF_MANY)
    f = stopped_is_named(j, pids, rng.randrange(2))
    job.check(f["evidence"].get("known_from") == "counters", f"not by counters: {f}")
    j.stop()
    watched = [t for t in reported(j.rtr) if t.what == WATCH]
    job.check(sorted(t.pid for t in watched) == sorted(pids.values()), f"said more than once: {len(watched)} times")
    _, last = still_seen(j.rtr, pids.values(), is_probed)
    job.check(last == gone, f"probed again: the last records were at {gone}, now at {last}")
    for pid in pids.values():
        after = sum(ts > last[pid] and (tracer, kind) == (rtr.COLLECTOR, COMM_SAMPLE)
                    for tracer, kind, p, _, ts, _ in rtr.whole_records(j.rtr) if p == pid)
        job.check(after >= 3, f"NCCL's counters of pid {pid} do not go on: {after} samples")
    check_lines(j.rtr, "all its probes are removed, it is watched from outside")
    check_trace(j.trace)
    j.check_replay()
    print(f"  all probes went at {', '.join(f'{100 * t.share:.2f} %' for t in watched)} of a core; "
          "who stopped is named")


def shared(number):
    """A kernel before 6.6: what one rank pays too much for goes from all, said of the one that pays."""
    os.environ["RANKTRACE_KERNEL_LACKS"] = "uprobe-multi"
    try:
        j = job.Job(JAX[:3] + [60] + JAX[4:] + ["--seed", number], ["--budget", 1], name="budget")
    finally:
        del os.environ["RANKTRACE_KERNEL_LACKS"]
    pids = set(ranks_of(j, 2).values())
    by_pid = wait_shed(j, EVENTS, pids, 60)
    by_pid = {pid: by_pid[pid] for pid in pids}
    wanted, what = is_cuda((EVENT_RECORD, EVENT_WAIT)), "CUDA events of all"
    gone = wait_gone(j, by_pid, wanted, what, CLOSES_MOST_OF_MANY)
    code = j.end(180)
    job.check(code == 0, f"exit code {code}: {j.findings}")
    check_gone(j.rtr, by_pid, wanted, what, gone)
    said = [line for line in lines(j.rtr) if "cuEventRecord and cuStreamWaitEvent are no longer probed" in line]
    job.check(len(said) == 1, f"said {len(said)} times: {said}")
    missing, extra = job.compare_ops(job.lines(j.ops_log), j.replay("--ops"))
    job.check(not missing and not extra, f"operations: missing {missing[:5]}, extra {extra[:5]}")


def launches(number):
    """A job whose every launch is probed, to its end: what goes first, and what never goes."""
    j = job.Job(["--ranks", 2, "--steps", 150, "--step-ms", 100, "--layers", 48, "--seed", number],
                ["--tier", "burst", "--budget", 0.25, "--budget-node", "no"], name="budget")
    pids = set(ranks_of(j, 2).values())
    by_pid = wait_shed(j, BURST, pids, 120)
    gone = wait_gone(j, by_pid, is_cuda((LAUNCH,)), "launches")
    code = j.end(180)
    job.check(code == 0, f"exit code {code}: {j.findings}")
    job.check(sheds(j.rtr, BURST).keys() == pids, f"{sorted(sheds(j.rtr, BURST))}: not {sorted(pids)}\n{j.stderr()}")
    for pid in pids:
        mine = [t.group for t in reported(j.rtr) if t.pid == pid and t.what == SHED]
        job.check(mine[0] == BURST and NEEDED not in mine, f"pid {pid} lost groups {mine}")
    before = check_gone(j.rtr, by_pid, is_cuda((LAUNCH,)), "launches", gone)
    missing, extra = job.compare_ops(job.lines(j.ops_log), j.replay("--ops"))
    job.check(not missing and not extra, f"operations: missing {missing[:5]}, extra {extra[:5]}")
    check_lines(j.rtr, "launches, asynchronous copies and asynchronous allocations are no longer probed")
    check_summary(j, sum(t.what in (SHED, WATCH) for t in reported(j.rtr)))
    check_trace(j.trace)
    j.check_replay()
    print(f"  {sum(before.values())} launches seen until they went; all operations of the job seen")


def without(number):
    j = job.Job(["--ranks", 2, "--steps", 40, "--step-ms", 100, "--layers", 48, "--seed", number],
                ["--tier", "burst", "--budget=no",
                "--budget-node=no"], name="budget")
    job.check(j.end(120) == 0, f"{j.findings}")
    job.check(not reported(j.rtr), "a budget without one")
    job.check("probe hits" not in j.stderr(), j.stderr())


def bad_values():
    for value in ("lots", "0", "-1", "1e9", "2%"):
        for option in ("--budget", "--budget-node"):
            out = subprocess.run([job.RANKTRACE, "record", f"{option}={value}", "--all"], capture_output=True,
                                 text=True)
            job.check(out.returncode == 2 and "percentage of a core" in out.stderr,
                      f"{option}={value}: {out.returncode} {out.stderr}")


def main():
    job.need_root()
    rng, _ = job.seed()
    bad_values()
    ruler.start()
    _, _, number = faults.draw(rng)
    if "attach" in os.environ.get("RANKTRACE_KERNEL_LACKS", ""):
        job.skip("probes cannot be taken from one process")
    events(rng, number, None)
    events(rng, number, 1)
    nothing_is_left(rng, number)
    shared(number)
    polls(rng, number)
    launches(number)
    without(number)


if __name__ == "__main__":
    main()
