# SPDX-License-Identifier: Apache-2.0
"""On a machine with two or more NVIDIA GPUs and PyTorch: is a GPU that is slower by 5, 10, 20 % named without a probe?
One nested job (nestedjob.py, GPU-bound) and one `watch --no-raise` beside it; first nothing for a while (A/A), then in
turn, each on a rank drawn by SEED and with a pause after: a foreign process that computes for that share of the time on
the rank's GPU; a kernel that spins for that share of a step in the rank's own stream. LAYOUT as for nested.py;
SHARES=5,10,20. Prints a JSON line each: the step times before and during, who was named after how long, who wrongly."""
import os
import random
import signal
import statistics
import subprocess
import sys
import time

import gpujob
from gpujob import OUT, RANKTRACE, findings, say

LAYOUT = os.environ.get("LAYOUT", "tp=2,dp=2,pp=1")
JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nestedjob.py")
HEALTHY_S, FAULT_S, PAUSE_S = 40, 16, 14
SHARES = tuple(map(int, os.environ.get("SHARES", "5,10,20").split(",")))


class Slow:
    """A job, its watcher, and what is done to one of its GPUs."""

    def __init__(self):
        self.spin = f"{OUT}/slow.spin"
        self.job = gpujob.Ranks("slow", JOB, "--layout", LAYOUT, "--width", 8192, "--batch", 2048, "--layers", 4,
                                "--spin", self.spin)
        with open(f"{OUT}/slow.jsonl", "w", encoding="utf-8") as out, open(f"{OUT}/slow.err", "w",
                                                                           encoding="utf-8") as err:
            self.watch = subprocess.Popen([RANKTRACE, "watch", "--json", "--no-raise", "--phases=no", "-o",
                                           f"{OUT}/slow.rtr", "--pid", str(os.getpid())], stdout=out, stderr=err)

    def reported(self):
        with open(f"{OUT}/slow.jsonl", encoding="utf-8") as f:
            return [x for x in findings(f.read().rpartition("\n")[0]) if x["severity"] != "info"]

    def median_ms(self, begin_ns, end_ns):
        times = gpujob.step_times("slow", begin_ns, end_ns)
        return round(statistics.median(times) / 1e6, 2) if times else None

    def told(self, name, begin_ns, victim=None, **more):
        """What was reported from then on until now."""
        end_ns = time.monotonic_ns()
        new = [f for f in self.reported() if begin_ns < f["t_ns"] <= end_ns and f["phase"] != "close"]
        first = next((f for f in new if f["ranks"] == [victim]), None)
        say(f"slow-{name}", victim=victim, named_after_s=first and round((first["t_ns"] - begin_ns) / 1e9, 2),
            named=first and [first["kind"], first["cause"], first["summary"]],
            wrong=[[f["kind"], f["ranks"], f["summary"]] for f in new if f["ranks"] not in ([victim], [])],
            nobody=[f["summary"] for f in new if not f["ranks"]], **more)

    def begin_fault(self, how, victim, percent):
        if how == "spin":
            with open(self.spin, "w", encoding="utf-8") as f:
                f.write(f"{victim} {percent}")
            return None
        return gpujob.Foreign(victim % gpujob.GPUS, percent)

    def fault(self, how, victim, percent):
        before_ns = time.monotonic_ns()
        time.sleep(PAUSE_S)
        other = self.begin_fault(how, victim, percent)
        begin_ns = time.monotonic_ns()
        time.sleep(FAULT_S)
        end_ns = time.monotonic_ns()
        if other:
            other.kill()
        elif os.path.exists(self.spin):
            os.unlink(self.spin)
        time.sleep(0.5)
        self.told(f"{how}-{percent}", begin_ns, victim,
                  step_ms=[self.median_ms(before_ns + 5_000_000_000, begin_ns), self.median_ms(begin_ns, end_ns)])

    def end(self):
        self.watch.send_signal(signal.SIGINT)
        self.watch.wait(60)
        self.job.end()


def main():
    os.makedirs(OUT, exist_ok=True)
    draw = random.Random(int(os.environ.get("SEED", 1)))
    slow = Slow()
    end = time.monotonic() + 90
    while slow.job.steady_s() < 5:
        if time.monotonic() > end:
            print(slow.job.text()[-2000:])
            break
        time.sleep(0.1)
    begin_ns = time.monotonic_ns()
    time.sleep(HEALTHY_S)
    slow.told("none", begin_ns, step_ms=slow.median_ms(begin_ns, time.monotonic_ns()))
    for how in sys.argv[1:] or ("foreign", "spin"):
        for percent in SHARES:
            slow.fault(how, draw.randrange(slow.job.n), percent)
    slow.end()


main()
