# SPDX-License-Identifier: Apache-2.0
"""What a probe hit is said to cost, against what it takes: a process that calls the simulated cuEventQuery again and
again, probed and not in turns, by the CPU time of its thread.

    O=build python3 -B tools/bench/price.py [--pairs 5] [--walk 0,64,1024]      (root)

A call has two hits, entry and return. Between two calls the process reads so many KiB of its memory (--walk), as a job
does other work there, and every 20 calls it sleeps. The price is the session's own sum at its end, `record -v`."""
import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/aid"))
import job

SETTLE_S = 4  # until all groups are in
SUM = re.compile(r"(\d+) probe hits of ([\d.]+) us.*?: ([\d.]+) s of CPU time")
HITS_LEAST = 1000  # of fewer the sum says nothing: the probes came late
TARGET = """
import ctypes, sys, time, zlib
query = ctypes.CDLL(sys.argv[1]).cuEventQuery
memory, second = bytes(1024 * int(sys.argv[2])), 0
while True:
    begin, cpu, n = time.monotonic_ns(), time.thread_time_ns(), 0
    while time.monotonic_ns() - begin < 10**9:
        for _ in range(20):
            zlib.adler32(memory)
            query(None)
        n += 20
        time.sleep(0.002)
    print(begin, time.monotonic_ns(), (time.thread_time_ns() - cpu) / n, flush=True)
"""


def call_ns(path, seconds):
    """CPU time of one call: median of the whole seconds from now on."""
    begin = time.monotonic_ns()
    time.sleep(seconds + 1)
    with open(path, encoding="utf-8") as f:
        rows = [line.split() for line in f if line.count(" ") == 2 and line.endswith("\n")]
    return statistics.median(float(ns) for since, until, ns in rows if int(since) >= begin)


def probed(pid, path, seconds, folder):
    """CPU time of one call, and what a hit is said to cost."""
    err = f"{folder}/err"
    with open(err, "w", encoding="utf-8") as to:
        session = subprocess.Popen([job.RANKTRACE, "record", "-v", "--budget", "9000", "--budget-node", "9000", "-o",
                                    f"{folder}/session.rtr", "--pid", str(pid)], stdout=subprocess.DEVNULL, stderr=to)
        time.sleep(SETTLE_S)
        ns = call_ns(path, seconds)
        session.send_signal(signal.SIGTERM)
        session.wait(60)
    with open(err, encoding="utf-8") as f:
        text = f.read()
    found = SUM.search(text)
    if not found:
        sys.exit(f"bench: the session says no sum\n{text}")
    time.sleep(2)  # its probes are gone
    hits, each_us, sum_s = int(found[1]), float(found[2]), float(found[3])
    if hits < HITS_LEAST:
        return ns, None
    by_sum = sum_s / 0.01 > each_us / 0.1  # of the two that are said, the one that is rounded less
    return ns, sum_s * 1e9 / hits if by_sum else each_us * 1e3


def compare(walk, args, folder):
    path = f"{folder}/calls"
    library = os.path.join(os.path.dirname(job.RANKTRACE), "lib/ranktrace/sim/libcuda.so.1")
    with open(path, "w", encoding="utf-8") as to:
        target = subprocess.Popen([sys.executable, "-c", TARGET, library, str(walk)], stdout=to)
    ratios = []
    try:
        time.sleep(2)
        before = call_ns(path, args.window)
        for _ in range(args.pairs):
            on, price = probed(target.pid, path, args.window, folder)
            after = call_ns(path, args.window)
            hit = (on - (before + after) / 2) / 2
            if not price:
                print(f"  {walk} KiB: not {HITS_LEAST} hits, left out", flush=True)
                continue
            ratios.append(price / hit)
            print(f"  {walk} KiB: a call {on:.0f} ns probed, {before:.0f} and {after:.0f} not: {hit:.0f} ns a hit, "
                  f"said to cost {price:.0f}", flush=True)
            before = after
    finally:
        target.kill()
        target.wait()
    if not ratios:
        sys.exit("bench: the machine is too busy")
    print(f"{walk} KiB between two calls: price to cost {statistics.median(ratios):.2f} ({min(ratios):.2f} to "
          f"{max(ratios):.2f})", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--pairs", type=int, default=5)
    p.add_argument("--window", type=int, default=4, help="seconds")
    p.add_argument("--walk", default="0,64,1024", help="KiB that are read between two calls")
    args = p.parse_args()
    job.need_root()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    with tempfile.TemporaryDirectory(prefix="ranktrace-price-") as folder:
        for walk in args.walk.split(","):
            compare(int(walk), args, folder)


if __name__ == "__main__":
    main()
