# SPDX-License-Identifier: Apache-2.0
"""What ranktrace costs the simulated job: its steps with each tier on against off, and what our own processes use.

    make bench-overhead ARGS='--pairs 5 --steps 200'     (root; tools/bench/overhead.py --help for the options)

One job runs for each case. Windows of so many steps with a session attached and without take turns. A pair's ratio is
the median step of the traced window to the mean of the two untraced windows beside it; the control compares these two.
Intervals are of 95 %, by bootstrap over the pairs. The price that the tool gives (hits by records, at the cost of a
hit that the session measured) stands beside the CPU time that the kernel counts for the ranks more than untraced."""
import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/aid"))
import budget
import job

LOSS = '"rank":0,', '"op":"AllReduce","count":2,'  # the end of a step of rank 0
SETTLE_S = 2.0  # a session attaches, and its probes go again
CASES = {
    "gpu": ("GPU-bound", {"step-ms": 40}),
    "host": ("CPU-bound: the host works all step", {"step-ms": 10, "host-ms": 20}),
    "small": ("collectives at full rate", {"step-ms": 1, "layers": 1, "buckets": 64, "sync": "step"}),
}
TIERS = {
    "watch": ["watch", "-q", "--no-raise"],
    "trace": ["record", "-q", "--tier", "trace"],
    "burst": ["record", "-q", "--tier", "burst"],
}


class Case:
    """The job, running; its log is read from where a window begins."""

    def __init__(self, folder, name, args):
        self.log = f"{folder}/{name}.jsonl"
        options = {"log": self.log, "steps": 10**7, "ranks": args.ranks, "seed": args.seed, **CASES[name][1]}
        self.process = subprocess.Popen(
            [job.RANKTRACE, "sim", "job", "-q", *(f"--{k}={v}" for k, v in options.items())],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while len(self.pids()) < args.ranks:
            if time.monotonic() > end or self.process.poll() is not None:
                sys.exit("bench-overhead: the job does not start")
            time.sleep(0.5)

    def pids(self):
        found = set()
        if os.path.exists(self.log):
            with open(self.log, encoding="utf-8") as f:
                found = {line.split('"pid":')[1].split(",")[0] for line in f.readlines(1 << 20) if '"pid":' in line}
        return sorted(int(p) for p in found)

    def steps(self, n):
        """Durations in ms of the next n steps."""
        ends, rest = [], ""
        with open(self.log, encoding="utf-8") as f:
            f.seek(0, os.SEEK_END)
            while len(ends) <= n:
                rest += f.read()
                lines = rest.split("\n")
                rest = lines.pop()
                ends += [int(x.split('"t_ns":')[1].split("}")[0].split(",")[0]) for x in lines
                         if LOSS[0] in x and LOSS[1] in x]
                time.sleep(0.02)
                if self.process.poll() is not None:
                    sys.exit("bench-overhead: the job ended")
        return [(b - a) / 1e6 for a, b in zip(ends, ends[1:])]

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)


def family(root):
    """The process and its descendants."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as f:
                parents[int(name)] = int(f.read().rpartition(")")[2].split()[1])
        except OSError:
            pass
    found = [root]
    for p in found:
        found += [c for c, of in parents.items() if of == p]
    return found


def cpu_s(pids):
    total = 0
    for p in pids:
        try:
            total += budget.cpu_ns(p)
        except OSError:
            pass
    return total / 1e9


def memory_mib(pids):
    total = 0
    for p in pids:
        try:
            with open(f"/proc/{p}/smaps_rollup", encoding="utf-8") as f:
                total += next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
        except OSError:
            pass
    return total / 1024


def window(case, args, ours=()):
    """A window: its steps, the ranks' CPU time and ours in % of a core."""
    ranks, begin = case.pids(), time.monotonic()
    before = cpu_s(ranks), cpu_s(ours)
    steps = case.steps(args.steps)
    spent = time.monotonic() - begin
    return {"steps": steps, "ranks": 100 * (cpu_s(ranks) - before[0]) / spent,
            "ours": 100 * (cpu_s(ours) - before[1]) / spent}


def traced(case, tier, args, folder):
    path = f"{folder}/session.rtr"
    argv = [job.RANKTRACE, *TIERS[tier], "--pid", str(case.process.pid)]
    if tier != "watch":
        argv += ["-o", path]
    begin = time.monotonic_ns()
    session = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(SETTLE_S)
    ours = family(session.pid)
    from_ns = time.monotonic_ns()
    result = window(case, args, ours)
    seconds = (time.monotonic_ns() - from_ns) / 1e9
    result["mib"] = memory_mib(ours)
    session.send_signal(signal.SIGTERM)
    session.wait(60)
    result["price"] = 0.0
    if tier != "watch":
        first, n = int((from_ns - begin) // 1e9) + 1, max(1, int(seconds) - 1)
        costs = [budget.cost_by_second(path, p, begin, first + n)[first:] for p in case.pids()]
        result["price"] = 100 * sum(map(sum, costs)) / n
    time.sleep(SETTLE_S)
    return result


def p99(steps):
    return sorted(steps)[int(0.99 * (len(steps) - 1))]


def interval(values, draw):
    means = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(2000))
    return f"{statistics.median(values):.4f} ({means[50]:.4f} to {means[1949]:.4f})"


def measure(case, tier, args, folder):
    """The pairs of one tier: ratios, and the windows."""
    before, rows = window(case, args), []
    for _ in range(args.pairs):
        on = traced(case, tier, args, folder)
        after = window(case, args)
        off = [statistics.median(w["steps"]) for w in (before, after)]
        rows.append({"ratio": statistics.median(on["steps"]) / statistics.mean(off), "control": off[1] / off[0],
                     "p99": p99(on["steps"]) / p99(before["steps"] + after["steps"]),
                     "more": on["ranks"] - (before["ranks"] + after["ranks"]) / 2,
                     "off_ms": statistics.mean(off), **on})
        before = after
    return rows


def row_say(name, tier, rows, args):
    draw = random.Random(args.seed)
    middle = {k: statistics.median(r[k] for r in rows) for k in ("off_ms", "p99", "more", "price", "ours", "mib")}
    print(f"| {name}, {middle['off_ms']:.1f} ms | {tier} | {interval([r['ratio'] for r in rows], draw)} | "
          f"{interval([r['control'] for r in rows], draw)} | {middle['p99']:.3f} | {middle['more']:.1f} | "
          f"{middle['price']:.2f} | {middle['ours']:.1f} | {middle['mib']:.0f} |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--pairs", type=int, default=5)
    p.add_argument("--steps", type=int, default=200, help="of a window")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--cases", default=",".join(CASES))
    p.add_argument("--tiers", default=",".join(TIERS))
    args = p.parse_args()
    job.need_root()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs; {args}\n\n"
          "| case, step | tier | step, on to off | off to off | p99 | ranks' CPU more, % | price, % | ours, % | MiB |\n"
          "|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="ranktrace-overhead-") as folder:
        for name in args.cases.split(","):
            case = Case(folder, name, args)
            try:
                time.sleep(3)  # its first steps load and tune
                for tier in args.tiers.split(","):
                    row_say(CASES[name][0], tier, measure(case, tier, args, folder), args)
            finally:
                case.stop()


if __name__ == "__main__":
    main()
