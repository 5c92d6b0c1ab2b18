#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small slice of the evaluation (docs/evaluation.md): of a simulated job of 128 ranks the hub's library names the
rank that was stopped, killed, asleep, within the bar and nobody else; nobody where nothing was done, with messages
lost or not; and the same seed gives the same lines."""
import json
import os
import subprocess
import sys

O = os.environ.get("O", "build")
sys.path.insert(0, "tools/simcluster")
import score  # noqa: E402

SMALL = ["-n", "128", "--pp", "2", "--micro", "4", "--warm", "40", "--watch", "6", "-j", "1"]


def cluster(*args, status=0):
    done = subprocess.run([f"{O}/ranktrace", "sim", "cluster", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=300)
    assert done.returncode == status, f"{args}: status {done.returncode}: {done.stderr}"
    return done


def trials(*args):
    return [json.loads(line) for line in cluster(*SMALL, *args).stdout.splitlines()]


def named(found):
    for t in found:
        said = f"{t['fault']} of rank {t['rank']}, seed {t['seed']}: {t['verdicts']}"
        assert t["waits"] and score.top(t, 1), f"not named first: {said}"
        assert score.latency(t) <= 5, f"late: {said}"
        assert score.wrong(t) == (0, 0), f"others named: {said}"


def silent(found):
    for t in found:
        assert not score.pages(t), f"named though nothing was done, {t['fault']}, seed {t['seed']}: {t['verdicts']}"


def main():
    found = trials("-f", "stop,kill,hang", "-t", "2")
    assert len(found) == 6, found
    named(found)
    assert trials("-f", "stop,kill,hang", "-t", "2") == found, "the same seed, other lines"
    assert {t["rank"] for t in trials("-f", "stop,kill,hang", "-t", "2", "-s", "2")} != {t["rank"] for t in found}
    silent(trials("-f", "none,agent,imbalance", "-t", "1", "--skew", "0.2", "--loss", "0.05", "--calls"))
    for bad in (["-n", "100"], ["-f", "stop,nothing"], ["--step", "x"], ["--loss", "2"]):
        assert "sim cluster" in cluster(*bad, status=2).stderr
    print("ok")


if __name__ == "__main__":
    main()
