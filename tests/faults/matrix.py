# SPDX-License-Identifier: Apache-2.0
"""The fault matrix with its full counts: every trial is a process with a seed of its own, JOBS of them at once.

    JOBS=n python3 -B tests/faults/matrix.py [f01 f10_hog ...]

Prints a line per case (trials, passed, seconds to the verdict) and the seeds of what failed, which `SEED=n TRIALS=1
python3 tests/faults/test_fNN_x.py` runs again; with -o FILE the same as JSON lines. Exit status 1 when a case lies
below its bar (docs/measurements/faults.md). Trials side by side share the machine: JOBS is a quarter of the cores
unless reported. Each of them has a copy of the program and its libraries: probes go on files, and two jobs of one file
would pay for each other's. Needs Python's standard library only, and O is a build or a packed one (make pack)."""
import argparse
import collections
import concurrent.futures
import glob
import json
import os
import queue
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# trials and the share of them that must pass: the matrix of docs/measurements/faults.md
MATRIX = {
    "f01": (100, 1.0), "f02": (100, 1.0), "f03": (100, 0.99), "f04": (100, 1.0), "f05": (100, 1.0), "f06": (100, 0.99),
    "f07": (100, 0.98), "f08": (100, 1.0), "f09": (100, 0.98), "f10": (100, 0.97), "f11": (100, 0.97),
    "f12": (100, 0.95),
    "f13": (100, 0.95), "f14": (100, 0.95), "f16": (100, 1.0), "f17": (100, 1.0), "f18": (100, 1.0), "f19": (100, 0.9),
    "f21": (100, 0.95),
}
BLAMED_MOST = 0.01  # of all trials, may name somebody who has nothing to do with it (job.blame())
LATE = re.compile(r"^RESULT (\{.*\})$", re.M)


def build_copies(where, n):
    """n copies of what a trial runs, each a file of its own, as a queue: the binary, its libraries, the simulated
    job."""
    build, copies = os.environ.get("O", "build"), queue.Queue()
    parts = [p for p in glob.glob(f"{build}/*") if os.path.basename(p) in ("ranktrace",
                                                                           "lib") or ".so" in os.path.basename(p)]
    if f"{build}/ranktrace" not in parts:
        sys.exit(f"matrix: no {build}/ranktrace: run `make build`, or set O to where it is")
    for i in range(n):
        to = f"{where}/{i}"
        os.mkdir(to)
        for p in parts:
            (shutil.copytree if os.path.isdir(p) else shutil.copy2)(p, f"{to}/{os.path.basename(p)}")
        copies.put(to)
    return copies


def trial(path, seed, copies, first, until):
    """None past `until`. The first of each copy begin one after another: sessions that attach at once hold each other
    up."""
    time.sleep(first)
    begin, copy = time.monotonic(), copies.get()
    if begin > until:
        copies.put(copy)
        return None
    run = subprocess.run(["timeout", "--kill-after=20", "600", sys.executable, "-B", path], capture_output=True,
                         text=True, env={**os.environ, "O": copy, "SEED": str(seed), "TRIALS": "1", "LONG": "1"})
    copies.put(copy)
    out = run.stdout + run.stderr
    return {"seed": seed, "code": run.returncode, "took_s": time.monotonic() - begin, "out": out,
            "results": [json.loads(x) for x in LATE.findall(out)]}


def quantiles(values):
    v = sorted(values)
    return f"p50 {statistics.median(v):.2f} s, p90 {v[min(len(v) - 1, int(0.9 * len(v)))]:.2f} s, max {v[-1]:.2f} s"


def summary(name, trials, bar):
    ran = [t for t in trials if t["code"] != 77]
    passed = [t for t in ran if t["code"] == 0]
    late = collections.defaultdict(list)
    for t in passed:
        for r in t["results"]:
            late[r["case"]].append(r["late_s"])
    line = f"{name}: {len(passed)} of {len(ran)}" if ran else f"{name}: skipped: {trials[0]['out'].splitlines()[-1]}"
    print(line + "".join(f"\n    {c}: {len(v)} times, {quantiles(v)}" for c, v in sorted(late.items())), flush=True)
    for t in ran:
        if t["code"]:
            why = [x for x in t["out"].splitlines() if x.startswith(("FAILED", "Traceback", "AssertionError"))]
            print(f"    failed: SEED={t['seed']} ({t['took_s']:.0f} s) {why[0][:300] if why else t['out'][-300:]}",
                  flush=True)
    n_blamed = sum("FAILED: blamed: " in t["out"] for t in ran)
    if n_blamed:
        print(f"    somebody was blamed falsely in {n_blamed} of {len(ran)}", flush=True)
    return not ran or (len(passed) >= bar * len(ran) and n_blamed <= BLAMED_MOST * len(ran))


def case_end(name, runs, output):
    if not runs:
        print(f"{name}: no test")
        return False
    done = [d for d in (r.result() for r in runs) if d]
    if not done:
        print(f"{name}: no time for it")
        return False
    if output:
        with open(output, "a") as f:
            f.writelines(json.dumps({"case": name, **{k: v for k, v in t.items() if k != "out" or t["code"]}}) + "\n"
                         for t in done)
    return summary(name, done, MATRIX[name[:3]][1])


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("cases", nargs="*", default=None)
    args.add_argument("-o", "--output")
    args.add_argument("-n", "--trials", type=int, help="instead of the matrix's counts")
    args.add_argument("-s", "--seconds", type=float, default=float("inf"), help="begin no trial after that")
    args = args.parse_args()
    jobs = int(os.environ.get("JOBS", max(1, (os.cpu_count() or 1) // 4)))
    names = args.cases or list(MATRIX)
    with tempfile.TemporaryDirectory(prefix="ranktrace-matrix-") as where, \
            concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        copies = build_copies(where, jobs)
        begin, first = time.monotonic(), iter([0.8 * i for i in range(jobs)])
        runs = {name: [pool.submit(trial, path, random.SystemRandom().randrange(1 << 30), copies, next(first, 0),
                                   begin + args.seconds)
                       for path in sorted(glob.glob(f"{HERE}/test_{name}_*.py") + glob.glob(f"{HERE}/test_{name}.py"))
                       for _ in range(args.trials or MATRIX[name[:3]][0])] for name in names}
        below = [name for name in names if not case_end(name, runs[name], args.output)]
    print(f"below the bar: {' '.join(below)}" if below else "every case at its bar or above")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
