# SPDX-License-Identifier: Apache-2.0
"""What the probes cost a job of 20,000 CUDA events a step, against its budget, second by second; and the job's step
time from second 3 on against the same job untraced.

    make bench-budget ARGS='--pairs 5'     (root; tools/bench/budget.py --help for the options)

One job runs; windows with `ranktrace record` attached to it and windows without take turns. Ratios are of medians of
steps of neighbours; the control compares the two untraced windows on either side. Cost is shown twice: by the records
that hits led to, at the collector's own price of a hit, and by the CPU time that the kernel counts for the process,
less what it used in the untraced window before (a trap runs in the process)."""
import argparse
import os
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/aid"))
import job
import rtr

FROM_S = 3  # the promise holds from then on
LOSS_COUNT = 2  # elements of the AllReduce that ends a step
BUDGET, COST, SHED = 15, 0, 1


class Target:
    """The job, whose log says when each step of rank 0 ended."""

    def __init__(self, folder, args, wrap=()):
        self.log = f"{folder}/ops.jsonl"
        options = {"log": self.log, "steps": 10000000, "ranks": args.ranks, "step-ms": args.step_ms, "seed": args.seed,
                   "host-ms": args.host_ms, "cuda-events": args.cuda_events}
        argv = [job.RANKTRACE, "sim", "job", *(f"--{name}={value}" for name, value in options.items())]
        self.process = subprocess.Popen([*wrap, *argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while len(self.pids()) < args.ranks:
            if time.monotonic() > end or self.process.poll() is not None:
                sys.exit("bench-budget: the job does not start")
            time.sleep(0.2)

    def pids(self):
        return sorted({o["pid"] for o in job.lines(self.log)})

    def steps_ms(self, from_ns, to_ns):
        """Times between the ends of rank 0's steps in that span."""
        ends = [o["t_ns"] for o in job.lines(self.log)
                if (o["rank"], o["op"], o["count"]) == (0, "AllReduce", LOSS_COUNT)]
        ends = [t for t in ends if from_ns <= t <= to_ns]
        return [(b - a) / 1e6 for a, b in zip(ends, ends[1:])]

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)


def cpu_ns(pid):
    """Of all its threads, to the nanosecond."""
    total = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{tid}/schedstat") as f:
                total += int(f.read().split()[0])
        except FileNotFoundError:
            pass
    return total


def cpu_by_second(pids, seconds):
    """Share of a core that each process uses, second by second, beginning now."""
    shares, at, before = {p: [] for p in pids}, time.monotonic(), {p: cpu_ns(p) for p in pids}
    for i in range(seconds):
        time.sleep(max(0, at + i + 1 - time.monotonic()))
        for p in pids:
            now = cpu_ns(p)
            shares[p].append((now - before[p]) / 1e9)
            before[p] = now
    return shares


def cost_by_second(path, pid, begin_ns, seconds):
    """The same by records, at the price of a hit that the session measured: of its own hits where it says so."""
    hit_ns, n = 0, [0] * seconds
    for tracer, kind, p, _, ts, body in rtr.whole_records(path):
        if (tracer, kind) == (rtr.COLLECTOR, BUDGET) and (body[32] == COST or (body[32] == SHED and p == pid)):
            hit_ns = struct.unpack_from("<I", body, 24)[0]
        if p == pid and tracer in (rtr.NCCL, rtr.CUDA) and 0 <= ts - begin_ns < seconds * 1e9:
            n[int((ts - begin_ns) // 1e9)] += 1
    return [x * hit_ns / 1e9 for x in n]


def untraced(target, args):
    begin = time.monotonic_ns()
    cpu = cpu_by_second(target.pids(), args.window)
    return target.steps_ms(begin, time.monotonic_ns()), {p: statistics.median(v) for p, v in cpu.items()}


def traced(target, args, folder, idle):
    """The session comes now. Steps from second FROM_S on; cost of each process, by both measures."""
    path, seconds = f"{folder}/session.rtr", FROM_S + args.window
    begin = time.monotonic_ns()
    session = subprocess.Popen([job.RANKTRACE, "record", "-q", "--budget", str(args.budget), "-o", path,
                                "--pid", str(target.process.pid)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    cpu = cpu_by_second(target.pids(), seconds)
    end = time.monotonic_ns()
    session.send_signal(signal.SIGTERM)
    session.wait(60)
    own = {p: [x - idle[p] for x in v] for p, v in cpu.items()}
    records = {p: cost_by_second(path, p, begin, seconds) for p in cpu}
    time.sleep(2)  # its probes are gone
    return target.steps_ms(begin + FROM_S * 10**9, end), own, records


def percent(shares):
    return " ".join(f"{100 * x:6.2f}" for x in shares)


def median_by_second(runs):
    return [statistics.median(x) for x in zip(*runs)]


def attached(args, folder):
    target, ratios, control, own, records = Target(folder, args), [], [], [], []
    try:
        time.sleep(3)  # its first steps load and tune
        before, idle = untraced(target, args)
        for i in range(args.pairs):
            on, own_s, records_s = traced(target, args, folder, idle)
            after, idle = untraced(target, args)
            off = statistics.median(before + after)
            ratios.append(statistics.median(on) / off)
            control.append(statistics.median(after) / statistics.median(before))
            own += own_s.values()
            records += records_s.values()
            print(f"  pair {i + 1}: step {statistics.median(on):.2f} ms traced, {off:.2f} untraced: {ratios[-1]:.4f}; "
                  f"untraced to untraced {control[-1]:.4f}", flush=True)
            before = after
    finally:
        target.stop()
    return ratios, control, own, records


def table(args, own, records):
    seconds = FROM_S + args.window
    print(f"\ncost of a process, % of a core, budget {args.budget:g} %; second since the session's start, medians of "
          f"{len(own)} (processes x windows); worst")
    print("  second        " + " ".join(f"{i + 1:6d}" for i in range(seconds)))
    for name, runs in (("by records", records), ("by CPU time", own)):
        print(f"  {name:12s}  {percent(median_by_second(runs))}")
        print(f"  {'  worst':12s}  {percent(max(x) for x in zip(*runs))}")


def sum_up(ratios, control):
    worst = max(abs(x - 1) for x in control)
    ratio = statistics.median(ratios)
    print(f"step time traced to untraced from second {FROM_S} on: {ratio:.4f} "
          f"({min(ratios):.4f} to {max(ratios):.4f}), {statistics.median(control):.4f} ({min(control):.4f} "
          f"to {max(control):.4f})")
    if worst > 0.01:
        print(f"  the control differs by up to {100 * worst:.1f} %: too noisy for a figure of 1 %")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--step-ms", type=float, default=200)
    p.add_argument("--host-ms", type=float, default=0,
                   help="CPU time of a rank's host a step: beyond --step-ms each trap shows")
    p.add_argument("--cuda-events", type=int, default=20000)
    p.add_argument("--budget", type=float, default=1, help="percent of a core")
    p.add_argument("--pairs", type=int, default=5)
    p.add_argument("--window", type=int, default=10, help="seconds")
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    job.need_root()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs; {args}")
    with tempfile.TemporaryDirectory(prefix="ranktrace-budget-") as folder:
        ratios, control, own, records = attached(args, folder)
    table(args, own, records)
    sum_up(ratios, control)


if __name__ == "__main__":
    main()
