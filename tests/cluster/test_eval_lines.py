#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the evaluation makes of lines of the simulator (tools/simcluster/eval.py), on lines made here: hours are cut
into slices of one length with seeds of their own; of a verdict and of the sums the last line counts, and a slice that
was ended early as far as it went; a bar of life is not judged before its hours are there, and lost by one critical
verdict at any time; a straggler counts that is named, alone, within five iterations, at 1,024 and at 10,240
ranks; a rank that stalls in ordinary life is not named wrongly."""
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


def trial(fault, named, after_s):
    """Of rank 5, in steps of 2 s: five of its iterations are 11 s."""
    found = [{"kind": "straggler", "class": "", "severity": "warning", "ranks": named, "n_ranks": len(named),
              "confidence": 0.9, "warned_s": after_s}] if named else []
    return {"fault": fault, "rank": 5, "rank2": -1, "step_s": 2, "verdicts": found, "baselines": {}, "stalls": []}


def stragglers(where):
    """{bar: (held, what)} of the case with 10,240 ranks, and the one of wrong ranks."""
    results = {name: evaluation.read(where, name) for name in evaluation.CASES}
    return {text: (held, what) for text, held, what in evaluation.bar_straggler(results)
            if "10,240" in text or "wrong" in text}


def judged_stragglers(where):
    soon, late = (f"10,240 ranks, {evaluation.NAMES[f]} by 10 %: top-1 >= 97 % within 5 iterations"
                  for f in evaluation.SLOW)
    assert stragglers(where)[soon] == stragglers(where)[late] == (None, "not run")
    assert "10240" in evaluation.CASES["bigcalls"][1] and "--calls" in evaluation.CASES["bigcalls"][1]
    write(where, "bigcalls", trial("slow", [5], 10.9), trial("slow", [5], 3), trial("late", [5], 8),
          trial("late", [5], 11.1))
    assert stragglers(where) == {soon: (True, "100.0 % of 2; in 14 s 100.0 %"),
                                 late: (False, "50.0 % of 2; in 14 s 100.0 %"),
                                 "stragglers: never a wrong rank": (True, "0 pages")}, stragglers(where)
    write(where, "bigcalls", trial("slow", [], 0), trial("late", [6], 8), trial("late", [5, 6], 8))
    assert stragglers(where) == {soon: (False, "0.0 % of 1; in 14 s 0.0 %"),
                                 late: (False, "0.0 % of 2; in 14 s 0.0 %"),
                                 "stragglers: never a wrong rank": (False, "2 pages")}, stragglers(where)


def stalled():
    """Who names a rank whose input ran dry is right while it lasts; not another rank, not later, nor for long after."""
    page = {"kind": "hang", "class": "missing_enter", "severity": "warning", "ranks": [7], "n_ranks": 1,
            "confidence": 0.9, "warned_s": 5}

    def wrong(stall, **verdict):
        one = dict(trial("none", [], 0), verdicts=[dict(page, **verdict)], stalls=stall)
        return evaluation.score.wrong(one)[0]

    stall = [{"rank": 7, "begin_s": 2.5, "s": 4}]
    assert wrong([]) == 1 and wrong(stall) == 0 and wrong(stall, closed_s=14) == 0
    assert wrong(stall, closed_s=15) == wrong(stall, warned_s=2) == wrong(stall, warned_s=9) == 1
    assert wrong(stall, ranks=[8]) == wrong(stall, kind="straggler") == wrong(stall, **{"class": "stopped"}) == 1


def main():
    sliced()
    stalled()
    with tempfile.TemporaryDirectory() as where:
        judged(where)
        judged_stragglers(where)
    print("ok")


if __name__ == "__main__":
    main()
