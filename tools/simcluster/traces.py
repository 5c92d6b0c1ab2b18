#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The hub's blame walk on the three public traces of "Understanding Stragglers in Large Model Training" (repository
ByteDance-Seed/StragglerAnalysis on GitHub; the traces are not kept here). DIR holds data/timeline-*.json.gz of it.

A worker is a stage of a replica. What a host knows is made of what the traces have, durations only: an operation lasts
from the end of what its worker did before to its own end. With --docs the table goes into docs/evaluation.md. Exit
status 1: a wrong worker was named, or the slowed one was not."""
import argparse
import collections
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile

import eval as evaluation

CULPRITS = {"AR": {(0, 0)}, "ST": set(), "SE": set()}  # (stage, replica), as the authors say of the trace
WHAT = {"AR": "one worker slowed", "ST": "last stage too heavy", "SE": "sequences of unequal length"}
TRANSFERS = ("forward-recv", "backward-recv", "forward-send", "backward-send",
         "layernorm-grads-all-reduce")  # transfers, and what the traces do not say the peers of
EMBEDDING = "embedding-grads-all-reduce"
COLLECTIVES = ("grads-reduce-scatter", "params-all-gather", "optimizer-clip-main-grad", EMBEDDING)


def read(path):
    """Events by (step, worker), a worker by the names of its threads: ("PP rank 3, TP rank 0, dp-comm")."""
    with gzip.open(path, "rt", encoding="utf-8") as f:
        events = json.load(f)
    stage = {}
    for e in events:
        if e["name"] == "thread_name":
            stage[e["pid"], e["tid"]] = int(re.match(r"PP rank (\d+)", e["args"]["name"])[1])
    steps = collections.defaultdict(lambda: collections.defaultdict(list))
    for e in events:
        if e["ph"] == "X" and e["name"] != "gc":
            steps[e["args"]["step"]][stage[e["pid"], e["tid"]], e["pid"]].append(
                (e["ts"] / 1e6, (e["ts"] + e["dur"]) / 1e6, e["name"]))
    return {s: {w: sorted(ops) for w, ops in workers.items()} for s, workers in sorted(steps.items())}


def comm_of(name, worker, n_workers, n_replicas):
    """Its number, and how many are in it."""
    if name == "optimizer-clip-main-grad":
        return 0xff0000, n_workers
    if name == EMBEDDING:  # the first and the last stage
        return 0xee0000, 2 * n_replicas
    return 0x1000 + worker[0], n_replicas


def sums(steps, error_s):
    """{second: {(worker, communicator, its size): [ended, sum, recvs, their sum]}}, step behind step, and the second at
    which each step ends."""
    table, ends, at = collections.defaultdict(dict), [], 0.0
    workers = sorted({w for one in steps.values() for w in one})
    n_replicas = len({w[1] for w in workers})
    for one in steps.values():
        begin = min(ops[0][0] for ops in one.values())
        for w, ops in one.items():
            free = begin
            for start, end, name in ops:
                second = int(at + end - begin)
                if name in COLLECTIVES or name in TRANSFERS:
                    at_comm = COLLECTIVES[0] if name in TRANSFERS else name  # of a transfer the worker alone counts
                    row = table[second].setdefault((w, *comm_of(at_comm, w, len(workers), n_replicas)),
                                                   [0, 0.0, 0, 0.0])
                    k = 2 if name in TRANSFERS else 0
                    row[k] += 1
                    row[k + 1] += max(0.0, end - max(free, begin)) + error_s / 2
                free = max(free, end)
        at += max(op[1] for ops in one.values() for op in ops) - begin
        ends.append(int(at))
    return table, ends, workers, n_replicas


def lines_write(f, table, ends, workers, n_replicas, error_s):
    """Each worker says something of each of its communicators each second."""
    for second in range(ends[-1] + 1):
        for i, w in enumerate(workers):
            ends_of = COLLECTIVES if w[0] in (0, max(workers)[0]) else COLLECTIVES[:-1]
            for comm, size in sorted({comm_of(n, w, len(workers), n_replicas) for n in ends_of}):
                n, s, r, rs = table[second].get((w, comm, size), (0, 0, 0, 0))
                f.write(f"{second} {i} {comm:x} {size} {n} {int(s * 1e9)} {int(n * error_s * 1e9)} {r} "
                        f"{int(rs * 1e9)}\n")


def judge(program, steps, error_s):
    """The workers that are named, by step; and the workers."""
    table, ends, workers, n_replicas = sums(steps, error_s)
    with tempfile.NamedTemporaryFile("w", suffix=".durations") as f:
        lines_write(f, table, ends, workers, n_replicas, error_s)
        f.flush()
        out = subprocess.run([program, "--durations", f.name], check=True, capture_output=True, text=True).stdout
    named = [set() for _ in ends]
    for line in out.splitlines():
        one = json.loads(line)
        k = next(i for i, end in enumerate(ends) if one["second"] <= end)
        named[k] |= {workers[r] for r in one["ranks"]}
    return named, workers


def row(program, name, steps, error_s):
    named, workers = judge(program, steps, error_s)
    culprits = CULPRITS[name]
    right = sum(bool(culprits) and n == culprits for n in named)
    wrong = sum(bool(n - culprits) for n in named)
    first = next((i + 1 for i, n in enumerate(named) if n & culprits), None)
    print(f"{name}, ends to {error_s * 1e3:g} ms: named rightly in {right}, wrongly in {wrong} of {len(named)} steps")
    return ((f"{name}: {WHAT[name]}", len(workers), len(named), f"{error_s * 1e3:g} ms",
             f"{right} (from step {first})" if first else right if culprits else "-", wrong),
            not wrong and (not culprits or right > 0))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir", metavar="DIR")
    p.add_argument("--docs", help="folder of evaluation.md, to be written")
    a = p.parse_args()
    program = os.path.join(os.environ.get("O", "build"), "lib/ranktrace/sim/simcluster")
    rows, good = [], True
    for name in CULPRITS:
        steps = read(os.path.join(a.dir, "data", f"timeline-{name}.json.gz"))
        for error_s in (0.0, 0.001, 0.01):
            one, held = row(program, name, steps, error_s)
            rows.append(one)
            good &= held
    if a.docs:
        head = ["trace", "workers", "steps", "error of an end", "named rightly", "wrongly"]
        evaluation.document(os.path.join(a.docs, "evaluation.md"), {"traces": evaluation.table(head, rows)})
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
