# SPDX-License-Identifier: Apache-2.0
"""On a machine with NVIDIA GPUs and PyTorch: what each tier costs real jobs. Cases (arguments; default: all but the
last): gpu-bound, short (the same with steps of some 5 ms), ddp (bound by its host), fsdp (FSDP2, 24 sharded layers),
graph (the step is one CUDA graph), small (collectives of 8 bytes at full rate), jax, jax-large (bound by its GPUs),
pipeline (nestedjob.py; four or eight GPUs; name it last). A case is one job; windows of STEPS (200) steps with and
without a session take turns: off, watch, off, trace, off, ..., PAIRS (5) rounds; `profiler` is PyTorch's own beside it.
A ratio is the median of the window to the mean of the medians of the two untraced windows around it; off to off is the
control. Two measures: the whole step, and the host's part of it (until it waits for the GPU), which is what a
host-bound job waits for. Intervals of 95 % by bootstrap. TIERS=watch,trace,burst,profiler chooses. RANKS: ranks that
share GPUs (default: the GPUs). Prints a table, one line a case and tier, and writes OUT_DIR/overhead.json."""
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "aid"))
import cost
import gpujob
from gpujob import OUT, RANKTRACE

STEPS = int(os.environ.get("STEPS", 200))
PAIRS = int(os.environ.get("PAIRS", 5))
TIERS = os.environ.get("TIERS", "watch,trace,burst,profiler").split(",")
SETTLE_S = float(os.environ.get("SETTLE_S", 2))  # a session attaches and admits its groups; what it left is gone
HITS = re.compile(r"(\d+) probe hits of ([\d.]+) us.*?([\d.]+) s of CPU time; in one process at most ([\d.]+) %")
CASES = {
    "gpu-bound": ("--mode", "ddp", "--width", 8192, "--layers", 4),
    "short": ("--mode", "ddp", "--width", 6144, "--layers", 2),
    "ddp": ("--mode", "ddp", "--width", 1024, "--layers", 12),
    "fsdp": ("--mode", "hsdp", "--width", 512, "--layers", 24, "--batch", 32),
    "graph": ("--mode", "graph", "--width", 1024, "--layers", 12),
    "small": ("--mode", "small", "--width", 64, "--layers", 1),
    "jax": (),
    "jax-large": ("--width", 8192, "--layers", 6),
    "pipeline": ("--layout", "tp=2,dp=1,pp=2" if gpujob.GPUS == 4 else "tp=2,dp=2,pp=2"),
}


class Job:
    def __init__(self, case):
        self.log = f"{OUT}/overhead-{case}.steps.0"
        if case == "pipeline":
            gpujob.TRAIN = os.path.join(os.path.dirname(gpujob.TRAIN), "nestedjob.py")
        if not case.startswith("jax"):
            self.process = gpujob.start(f"overhead-{case}", "--seconds", 3600, *CASES[case])
            return
        script = os.path.join(os.path.dirname(gpujob.TRAIN), "jaxjob.py")
        self.process = subprocess.Popen([sys.executable, script, "--seconds", "3600",
                                         f"--prefix={OUT}/overhead-{case}", *map(str, CASES[case])])
        end = time.monotonic() + 90
        while not os.path.exists(self.log) or os.path.getsize(self.log) < 500:
            if time.monotonic() > end:
                raise SystemExit(f"{case}: the job made no steps")
            time.sleep(0.2)

    def lines(self):
        with open(self.log, encoding="utf-8") as f:
            return [tuple(map(int, line.split())) for line in f.read().split("\n")[:-1]]

    def window(self):
        """The next steps: their times and their host's parts, ms."""
        first = len(self.lines())
        while len(lines := self.lines()) < first + STEPS + 1:
            time.sleep(0.05)
            if self.process.poll() is not None:
                raise SystemExit("the job ended")
        lines = lines[first:first + STEPS + 1]
        return {"step": [(b[1] - a[1]) / 1e6 for a, b in zip(lines, lines[1:])],
                "host": [x[2] / 1e6 for x in lines[1:]]}

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        gpujob.kill_ranks()


def ours(pid):
    """CPU seconds and memory (MiB) of all our processes."""
    mib = 0
    for p in [pid] + cost.children(pid):
        try:
            with open(f"/proc/{p}/smaps_rollup", encoding="utf-8") as f:
                mib += next(int(line.split()[1]) for line in f if line.startswith("Pss:")) / 1024
        except OSError:
            pass
    return sum(cost.cpu_s(pid).values()), mib


def traced(job, tier):
    argv = {"watch": ["watch", "-v", "--no-raise"], "trace": ["record", "-v", "--tier", "trace"],
            "burst": ["record", "-v", "--tier", "burst"]}[tier]
    session = subprocess.Popen([RANKTRACE, *argv, "--pid", str(job.process.pid)], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    time.sleep(SETTLE_S)
    before, begin = ours(session.pid)[0], time.monotonic()
    result = job.window()
    spent, mib = ours(session.pid)
    result["ours"] = 100 * (spent - before) / (time.monotonic() - begin)
    result["mib"] = mib
    session.send_signal(signal.SIGINT)
    text = session.communicate(timeout=60)[1]
    result["said"] = [line for line in text.splitlines() if "hit" in line or "probes" in line or "budget" in line]
    if found := HITS.search(text):
        result["hits"], result["price_us"] = int(found[1]), float(found[2])
        result["price"] = float(found[4])
    return result


def profiled(job):
    def turn():
        for pid in gpujob.rank_pids(f"overhead-{job.log.split('overhead-')[1].split('.')[0]}").values():
            os.kill(pid, signal.SIGUSR1)
    turn()
    time.sleep(SETTLE_S)
    result = job.window()
    turn()
    time.sleep(2 * SETTLE_S)  # it writes what it has
    return result


def ratio(on, before, after, key):
    off = [statistics.median(w[key]) for w in (before, after)]
    return statistics.median(on[key]) / statistics.mean(off), off[1] / off[0]


def p99(steps):
    return sorted(steps)[int(0.99 * (len(steps) - 1))]


def interval(values, draw):
    means = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(2000))
    return f"{statistics.median(values):.4f} ({means[50]:.4f} to {means[1949]:.4f})"


def measure(job, tiers):
    rows, before = {t: [] for t in tiers}, job.window()
    for _ in range(PAIRS):
        for tier in tiers:
            on = profiled(job) if tier == "profiler" else traced(job, tier)
            time.sleep(0.5)
            after = job.window()
            step, control = ratio(on, before, after, "step")
            host, host_control = ratio(on, before, after, "host")
            rows[tier].append({"ratio": step, "control": control, "host": host, "host_control": host_control,
                               "p99": p99(on["step"]) / p99(before["step"] + after["step"]),
                               "off_ms": statistics.median(before["step"] + after["step"]),
                               "host_ms": statistics.median(before["host"] + after["host"]),
                               **{k: on.get(k, 0) for k in ("ours", "mib", "price", "price_us", "hits")}})
            before = after
            rows[tier][-1]["said"] = on.get("said", [])
    return rows


def report(case, tier, rows):
    draw, middle = random.Random(1), {k: statistics.median(r[k] for r in rows) for k in rows[0] if k != "said"}
    cells = [f"{case}, {middle['off_ms']:.2f} ({middle['host_ms']:.2f}) ms", tier,
             *(interval([r[k] for r in rows], draw) for k in ("ratio", "control", "host", "host_control")),
             f"{middle['p99']:.3f}", f"{middle['price']:.2f}", f"{middle['ours']:.2f}", f"{middle['mib']:.0f}"]
    print("| " + " | ".join(cells) + " |", flush=True)
    for line in rows[0]["said"][-4:]:
        print(f"    {tier}: {line}", flush=True)


def main():
    os.makedirs(OUT, exist_ok=True)
    print("| case, step (host) | tier | step, on / off | off / off | host, on / off | off / off | p99 "
          "| price, % of a core | ours, % | MiB |\n|---|---|---|---|---|---|---|---|---|---|")
    results = {}
    for case in sys.argv[1:] or [c for c in CASES if c != "pipeline"]:
        tiers = [t for t in TIERS if t != "profiler" or not case.startswith("jax")]
        try:
            job = Job(case)
            time.sleep(3)  # its first steps load and tune
            results[case] = measure(job, tiers)
            for tier in dict.fromkeys(tiers):  # one that is named more often has more windows
                report(case, tier, results[case][tier])
            job.stop()
        except SystemExit as e:
            print(f"{case}: {str(e)[-1500:]}", flush=True)
            gpujob.kill_ranks()
    with open(f"{OUT}/overhead.json", "w", encoding="utf-8") as f:
        json.dump(results, f)


main()
