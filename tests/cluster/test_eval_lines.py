#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the evaluation makes of lines of the simulator (tools/simcluster/eval.py), on lines made here: hours are cut
into slices of one length with seeds of their own; of a verdict and of the sums the last line counts, and a slice that
was ended early as far as it went; a bar of life is not judged before its hours are there, and lost by one critical
verdict at any time."""
import json
import os
import sys
import tempfile

sys.path.insert(0, "tools/simcluster")
import eval as evaluation  # noqa: E402

SUMS = {"life": True, "checkpoints": 1, "evaluations": 0, "stalls": 2, "restarts": 0, "garbage": 3, "traffic": 1,
        "sequences": 0}


def verdict(number, severity):
    return {"number": number, "verdict": {"kind": "hang", "severity": severity, "ranks": [3]}}


def write(where, name, *lines, rest=""):
    with open(os.path.join(where, name + ".jsonl"), "w", encoding="utf-8") as f:
        f.writelines(json.dumps(line) + "\n" for line in lines)
        f.write(rest)


def bar(where, full=False):
    results = {name: evaluation.read(where, name) for name in evaluation.CASES}
    return [(held, what) for text, held, what in evaluation.bar_life(results, full, 1)
            if text.startswith("10,240 ranks, life: ")]


def sliced():
    for full, hours in ((False, 5), (True, 168)):
        todo = [(name, args, h) for name, args, h in evaluation.programs(evaluation.cases(full), full, 1)
                if name.startswith("lifewide.")]
        seeds = [args[args.index("-s") + 1] for _, args, _ in todo]
        assert abs(sum(h for _, _, h in todo) - hours) < 1e-6, todo
        assert len(set(seeds)) == len(todo) >= 16 and all("10240" in args for _, args, _ in todo), todo


def judged(where):
    assert bar(where) == [(None, "0 critical, 0 pages in 0.00 hours")]
    write(where, "lifewide.000", verdict(1, "info"), {**SUMS, "simulated_s": 300}, verdict(1, "warning"),
          verdict(2, "info"), {**SUMS, "simulated_s": 9000, "stalls": 4}, rest='{"life": tr')
    assert evaluation.is_through(where, "lifewide.000", 2.5) and not evaluation.is_through(where, "lifewide.000", 2.6)
    assert bar(where) == [(None, "0 critical, 1 pages in 2.50 hours")], bar(where)
    found = evaluation.read(where, "lifewide")[1]
    assert [v["severity"] for v in found] == ["warning", "info"], found
    write(where, "lifewide.001", verdict(1, "info"), {**SUMS, "simulated_s": 9000})
    assert bar(where) == [(True, "0 critical, 1 pages in 5.00 hours")], bar(where)
    assert evaluation.read(where, "lifewide")[2]["stalls"] == 6
    assert bar(where, full=True)[0][0] is None, "a week is not through after five hours"
    write(where, "lifewide.001", verdict(1, "critical"))
    assert bar(where) == [(False, "1 critical, 2 pages in 2.50 hours")], bar(where)


def main():
    sliced()
    with tempfile.TemporaryDirectory() as where:
        judged(where)
    print("ok")


if __name__ == "__main__":
    main()
