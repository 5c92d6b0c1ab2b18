# SPDX-License-Identifier: Apache-2.0
"""How long a session takes to see a running job's first operation on a host without free CPUs, where many other
processes run programs of their own, for several builds in turns.

    python3 -B tools/bench/attach_busy.py --others 40 --loops 6 --rounds 6 build/ranktrace OLD/ranktrace     (root)

Each round and build: a job begins with copies of its own of the libraries, which no session read before; the
session comes when all ranks call. Printed: seconds from the session's start to the first operation that it saw."""
import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

WAIT_S = 25
SIM = "lib/ranktrace/sim"


def others_start(folder, build, n):
    """Sleeping processes, each of another program with as many symbols as ours."""
    programs = []
    for i in range(n):
        path = f"{folder}/program{i}"
        shutil.copy(build, path)
        programs.append(subprocess.Popen([path, "sim", "job", "-q", "--ranks", "1", "--steps", "1000000", "--step-ms",
                                          "60000", "--no-dataloader"], stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL, start_new_session=True))
    return programs


def loops_start(n):
    return [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]


def group_kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def ops_lines(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read().split("\n")[:-1]
    except FileNotFoundError:
        return []


def first_op_s(folder, build, name, seed):
    """Seconds; None: none within WAIT_S."""
    copy, log, rtr = f"{folder}/{name}", f"{folder}/{name}.ops", f"{folder}/{name}.rtr"
    os.makedirs(f"{copy}/lib/ranktrace")
    shutil.copy(build, f"{copy}/ranktrace")
    shutil.copytree(f"{os.path.dirname(build)}/{SIM}", f"{copy}/{SIM}")
    job = subprocess.Popen([f"{copy}/ranktrace", "sim", "job", "-q", "--ranks", "4", "--steps", "1000000", "--step-ms",
                            "40", "--seed", str(seed), "--log", log], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, start_new_session=True)
    while len({line.split('"rank":')[1].split(",")[0] for line in ops_lines(log)}) < 4:
        time.sleep(0.1)
    begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    subprocess.run([build, "record", "-q", "-o", rtr, "--pid", str(job.pid), "-d", str(WAIT_S)],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    group_kill(job)
    out = subprocess.run([build, "replay", "-q", "--ops", rtr], capture_output=True, text=True, check=False)
    times = [json.loads(line)["t_ns"] for line in out.stdout.splitlines()]
    shutil.rmtree(copy)
    os.remove(log)
    return (min(times) - begin) / 1e9 if times else None


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--others", type=int, default=40, help="processes beside, each of a program of its own")
    options.add_argument("--loops", type=int, default=6, help="busy loops beside")
    options.add_argument("--rounds", type=int, default=6)
    options.add_argument("builds", nargs="+", help="ranktrace programs, in turns")
    args = options.parse_args()
    took = {build: [] for build in args.builds}
    with tempfile.TemporaryDirectory(prefix="ranktrace-attach-") as folder:
        others = others_start(folder, os.path.realpath(args.builds[0]), args.others)
        loops = loops_start(args.loops)
        try:
            for i in range(args.rounds):
                for k, build in enumerate(args.builds):
                    s = first_op_s(folder, os.path.realpath(build), f"{i}-{k}", 10 * i + 1)
                    took[build].append(s)
                    print(f"{build}: {'none' if s is None else f'{s:.2f} s'}", flush=True)
        finally:
            for p in loops:
                p.kill()
            for p in others:
                group_kill(p)
    for build, all_s in took.items():
        seen = sorted(s for s in all_s if s is not None)
        print(f"{build}: median {statistics.median(seen):.2f} s, most {seen[-1]:.2f} s" if seen else f"{build}:",
              f"{len(all_s) - len(seen)} of {len(all_s)} saw none within {WAIT_S} s")


if __name__ == "__main__":
    main()
