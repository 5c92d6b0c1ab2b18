# SPDX-License-Identifier: Apache-2.0
"""What tracing costs a program that spins in ibv_poll_cq() at full rate, in a guest with soft-RoCE whose clock counts
instructions (tests/vm/test_poller.sh), or on this machine, over the stand-ins of tes../aid/verbs: python3 -B
tests/vm/rdma_poller.py --stand-in [rounds] Windows A B A A of one poller: untraced, traced, untraced twice. The poller
does not move while a tracer loads and attaches, and begins a window when its last probe has been in place for a while.
Rates are polls per second of the poller's own CPU time, as it would have a CPU to itself; beside them by the clock,
where the collector runs on the same CPU of the guest and takes its time from the poller. A round's ratio is B's rate
over the mean of the two A's around it; A/A is the second of two untraced windows over the first. Medians and extremes
over the rounds. --least RATIO: trace tier's median must be that, and A/A within half of what it lacks to 1. """
import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import rdma_guest
from rdma_guest import RANKTRACE, until
from rdma_guest_late import listens

WINDOW_S = 2
SETTLE_S = 1


class Poller:
    def __init__(self, argv, cpu):
        self.process = subprocess.Popen(["taskset", "-c", str(cpu)] + argv, stdout=subprocess.PIPE, text=True)
        self.rows = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.rows.append(tuple(map(int, line.split())))

    def stands(self, still):
        self.process.send_signal(signal.SIGSTOP if still else signal.SIGCONT)

    def rate(self):
        """Polls a second of its own CPU time, and by the clock, over a window that begins when it has settled."""
        time.sleep(SETTLE_S)
        begin = len(self.rows)
        time.sleep(WINDOW_S)
        (cpu, wall, polls), (cpu_end, wall_end, polls_end) = self.rows[begin], self.rows[-1]
        return (polls_end - polls) * 1e9 / (cpu_end - cpu), (polls_end - polls) * 1e9 / (wall_end - wall)


def probes_said(err):
    return [int(line.split(" probes")[0].split()[-1]) for line in open(err) if " probes, " in line]


def traced(poller, tier, cpu):
    """Rates while traced, and how many probes were on."""
    err = "/tmp/poller.err"
    poller.stands(True)
    t = subprocess.Popen(["taskset", "-c", str(cpu), RANKTRACE, "record", "--tier", tier, "--budget=no", "-o",
                          "/tmp/poller.rtr", "--pid", str(poller.process.pid)], stderr=open(err, "w"))
    until(lambda: listens(t.pid), "the tracer does not begin")
    numbers = []
    # four answers say the same number of probes
    while len(numbers) < 4 or not numbers[-1] or numbers[-1] != numbers[-4]:
        if t.poll() is not None:
            sys.exit(open(err).read())
        t.send_signal(signal.SIGUSR1)
        time.sleep(0.5)
        numbers = probes_said(err)
    poller.stands(False)
    rates = poller.rate()
    poller.stands(True) # taking the probes out is no part of a window
    t.send_signal(signal.SIGINT)
    t.wait(60)
    poller.stands(False)
    return rates, numbers[-1]


def show(values):
    return f"{statistics.median(values):.4f} ({min(values):.4f} to {max(values):.4f})"


def measure(poller, tier, rounds, cpu):
    """Medians by CPU time: traced over untraced, untraced over untraced."""
    ratios, control, probes = ([], []), ([], []), 0
    before = poller.rate()
    for _ in range(rounds):
        during, probes = traced(poller, tier, cpu)
        after, again = poller.rate(), poller.rate()
        for by in (0, 1):
            ratios[by].append(during[by] / ((before[by] + after[by]) / 2))
            control[by].append(again[by] / after[by])
        before = again
    for by, what in enumerate(("CPU time", "the clock")):
        print(f"{tier}, by {what}: traced/untraced {show(ratios[by])}; A/A {show(control[by])}; {before[by]:.0f} polls "
              f"a second untraced",
              flush=True)
    print(f"{tier}: {probes} probes, {rounds} rounds of {WINDOW_S} s", flush=True)
    return statistics.median(ratios[0]), statistics.median(control[0])


def stand_ins():
    to = tempfile.mkdtemp(prefix="ranktrace-poller-")
    here = os.path.dirname(os.path.abspath(__file__))
    cc = ["cc", "-O2", "-w"]
    for made in (["-fPIC", "-shared", "-o", f"{to}/libibverbs.so.1", "-Wl,-soname,libibverbs.so.1",
                  f"{here}/../aid/verbs/verbs.c", "-ldl"],
                 ["-fPIC", "-shared", "-o", f"{to}/liba-rdmav34.so", "-Wl,--build-id",
                  f"{here}/../aid/verbs/provider.c"],
                 ["-DSTAND_IN", "-o", f"{to}/poller", f"{here}/rdma_poller.c", "-L" + to, "-l:libibverbs.so.1",
                  "-Wl,-rpath," + to]):
        subprocess.run(cc + made, check=True)
    open(f"{to}/uverbs0", "w").close()
    return [f"{to}/poller", f"{to}/liba-rdmav34.so", f"{to}/uverbs0"]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--stand-in", action="store_true")
    p.add_argument("--least", type=float, default=0)
    p.add_argument("rounds", type=int, nargs="?", default=6)
    a = p.parse_args()
    if not a.stand_in:
        rdma_guest.device()
    argv = stand_ins() if a.stand_in else [os.path.join(os.environ.get("O", "build"), "rdma_poller")]
    poller = Poller(argv, os.cpu_count() - 1)
    until(lambda: poller.rows, "the poller does not poll")
    ratio, control = measure(poller, "trace", a.rounds, 0)
    measure(poller, "burst", max(2, a.rounds // 3), 0)
    poller.process.kill()
    if a.least and abs(control - 1) > (1 - a.least) / 2:
        sys.exit(f"A/A is {control:.4f}: nothing can be said of {1 - a.least:.1%} here")
    if ratio < a.least:
        sys.exit(f"trace tier: {ratio:.4f} of the untraced rate, less than {a.least}")


if __name__ == "__main__":
    main()
