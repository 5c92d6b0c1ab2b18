# SPDX-License-Identifier: Apache-2.0
"""What tracing costs a program that spins in ibv_poll_cq() at full rate, in a guest with soft-RoCE:
    cc -O2 -o build/rdma_poller tests/vm/rdma_poller.c -libverbs
    tests/vm/guest.sh 6.12 --modules "crc32_generic ib_uverbs rdma_rxe veth" --seconds 340 -- \\
        python3 -B tests/vm/rdma_poller.py [rounds]
or on this machine, over the stand-ins of tests/e2e/verbs:
    python3 -B tests/vm/rdma_poller.py --stand-in [rounds]
Windows A B A of one poller on a CPU of its own: untraced, traced, untraced. Rates are polls per second of the poller's own CPU
time; under software emulation that is no better than wall time, and a busy machine is in it. A round's ratio is B's rate over the mean of the two A's
beside it; A/A is the second of two untraced windows over the first. Medians and extremes over the rounds. Not part of any suite: a
measurement is for docs/measurements.md.
"""
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import rdma_guest
from rdma_guest import RANKTRACE
from rdma_guest_late import listens, until

WINDOW_S = 4
SETTLE_S = 0.5


class Poller:
    def __init__(self, argv):
        self.process = subprocess.Popen(["taskset", "-c", "1"] + argv, stdout=subprocess.PIPE, text=True)
        self.rows = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.rows.append(tuple(map(int, line.split())))

    def rate(self):
        """Polls a second over a window that begins now."""
        time.sleep(SETTLE_S)
        begin = len(self.rows)
        time.sleep(WINDOW_S)
        rows = self.rows[begin:]
        return (rows[-1][1] - rows[0][1]) * 1e9 / (rows[-1][0] - rows[0][0])


def traced(poller, tier):
    """Rate while traced, and how many probes were on."""
    err = open("/tmp/poller.err", "w+")
    t = subprocess.Popen(["taskset", "-c", "0", RANKTRACE, "record", "--tier", tier, "--budget=no", "-o", "/tmp/poller.rtr", "--pid",
                          str(poller.process.pid)], stderr=err)
    probes = 0
    until(lambda: listens(t.pid), "the tracer does not begin")
    for _ in range(200): # until two answers say the same number of probes
        time.sleep(0.5)
        t.send_signal(signal.SIGUSR1)
        time.sleep(0.3)
        numbers = [int(line.split(" probes")[0].split()[-1]) for line in open("/tmp/poller.err") if " probes, " in line]
        if len(numbers) > 3 and numbers[-1] and numbers[-1] == numbers[-3]:
            probes = numbers[-1]
            break
    rate = poller.rate()
    t.send_signal(signal.SIGINT)
    t.wait(60)
    return rate, probes


def measure(poller, tier, rounds):
    ratios, control, probes = [], [], 0
    before = poller.rate()
    for _ in range(rounds):
        during, probes = traced(poller, tier)
        after, again = poller.rate(), poller.rate()
        ratios.append(during / ((before + after) / 2))
        control.append(again / after)
        before = again
    show = lambda xs: f"{statistics.median(xs):.4f} ({min(xs):.4f} to {max(xs):.4f})"
    print(f"{tier}: {probes} probes; traced/untraced {show(ratios)}; A/A {show(control)}; {before:.0f} polls per CPU second untraced; "
          f"{rounds} rounds of {WINDOW_S} s", flush=True)


def stand_ins():
    to = tempfile.mkdtemp(prefix="ranktrace-poller-")
    here = os.path.dirname(os.path.abspath(__file__))
    cc = ["cc", "-O2", "-w"]
    for made in (["-fPIC", "-shared", "-o", f"{to}/libibverbs.so.1", "-Wl,-soname,libibverbs.so.1", f"{here}/../e2e/verbs/verbs.c", "-ldl"],
                 ["-fPIC", "-shared", "-o", f"{to}/liba-rdmav34.so", "-Wl,--build-id", f"{here}/../e2e/verbs/provider.c"],
                 ["-DSTAND_IN", "-o", f"{to}/poller", f"{here}/rdma_poller.c", "-L" + to, "-l:libibverbs.so.1", "-Wl,-rpath," + to]):
        subprocess.run(cc + made, check=True)
    open(f"{to}/uverbs0", "w").close()
    return [f"{to}/poller", f"{to}/liba-rdmav34.so", f"{to}/uverbs0"]


def main():
    stand_in = "--stand-in" in sys.argv
    rounds = int(sys.argv[-1]) if sys.argv[-1].isdigit() else 8
    if stand_in:
        argv = stand_ins()
    else:
        rdma_guest.device()
        argv = [os.path.join(os.environ.get("O", "build"), "rdma_poller")]
    os.sched_setaffinity(0, {0})
    poller = Poller(argv)
    time.sleep(3)
    measure(poller, "trace", rounds)
    measure(poller, "burst", max(2, rounds // 3))
    poller.process.kill()


if __name__ == "__main__":
    main()
