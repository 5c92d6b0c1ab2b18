#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small slice of the evaluation (docs/evaluation.md): of a simulated job of 128 ranks the hub's library names the
rank that was stopped, killed, asleep, within the bar and nobody else; nobody where nothing was done, with messages
lost or not, agents upgraded or cut off, a host replaced, the job suspended; the same where agents or hub come to a job
that hangs already; and the same seed gives the same lines."""
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


def named(found, within_s=5):
    """And nothing that names it is over before the fault is."""
    for t in found:
        said = f"{t['fault']} of rank {t['rank']}, seed {t['seed']}: {t['verdicts']}"
        assert t["waits"] and score.top(t, 1), f"not named first: {said}"
        assert score.latency(t) <= within_s, f"late: {said}"
        assert score.wrong(t) == (0, 0), f"others named: {said}"
        assert not any("closed_s" in v for v in score.pages(t)), f"over too early: {said}"


def silent(found):
    for t in found:
        assert not score.pages(t), f"named though nothing was done, {t['fault']}, seed {t['seed']}: {t['verdicts']}"


def unobserved_once(t):
    """Hosts that are without an agent one after the other are one incident, as long as there is one."""
    said = f"agents started anew, seed {t['seed']}: {t['verdicts']}"
    assert {(v["kind"], v["severity"]) for v in t["verdicts"]} == {("unobserved", "info")}, said
    times = sorted((v["open_s"], v["closed_s"]) for v in t["verdicts"])
    assert all(b[0] > a[1] for a, b in zip(times, times[1:])), f"two at once: {said}"


def one_root(t):
    """Its agents are started anew while a rank hangs: one page, that stays, and what is not known meanwhile follows."""
    roots = [v for v in t["verdicts"] if v["severity"] in score.PAGES and not v["caused"]]
    said = f"agents started anew while rank {t['rank']} hangs, {t['fault']}, seed {t['seed']}: {t['verdicts']}"
    assert len(roots) == 1 and roots[0]["ranks"] == [t["rank"]] and "closed_s" not in roots[0], said


def once_and_over(t):
    """A host that is lost is one page, over when the job goes on without it, and no other rank is named."""
    pages = [v for v in t["verdicts"] if v["severity"] in score.PAGES]
    said = f"a host is lost and replaced, rank {t['rank']}, seed {t['seed']}: {t['verdicts']}"
    assert len(pages) == 1 and pages[0]["closed_s"] < 65 and score.wrong(t) == (0, 0), said


def main():
    found = trials("-f", "stop,kill,hang", "-t", "2")
    assert len(found) == 6, found
    named(found)
    assert trials("-f", "stop,kill,hang", "-t", "2") == found, "the same seed, other lines"
    assert {t["rank"] for t in trials("-f", "stop,kill,hang", "-t", "2", "-s", "2")} != {t["rank"] for t in found}
    named(trials("-f", "dstate", "-t", "2", "--watch", "20", "--calls"), 7)
    named(trials("-f", "stop,kill,hang,dstate", "-t", "1", "--watch", "60", "--hub-late", "30"), 32)
    named(trials("-f", "stop,kill,hang,dstate", "-t", "1", "--watch", "60", "--late", "30"), 45)
    for t in trials("-f", "stop,kill,hang,dstate", "-t", "2", "--watch", "75", "--upgrade", "15"):
        one_root(t)
    silent(trials("-f", "none,agent,imbalance", "-t", "1", "--skew", "0.2", "--loss", "0.05", "--calls"))
    suspended = trials("-f", "suspend", "-t", "2", "--watch", "20")
    silent(suspended)
    for t in suspended:
        said = [(v["kind"], v["severity"], v["n_ranks"]) for v in t["verdicts"]]
        assert said == [("stopped", "warning", 128)], f"a job that is suspended, seed {t['seed']}: {t['verdicts']}"
    resumed = trials("-f", "resume", "-t", "2", "--watch", "45", "--calls")
    silent(resumed)
    for t in resumed:
        said = [(v["kind"], v["severity"], v["n_ranks"], v.get("closed_s", 99) < 20) for v in t["verdicts"]]
        assert said == [("stopped", "warning", 128, True)], f"suspended, goes on, seed {t['seed']}: {t['verdicts']}"
    upgraded = trials("-f", "upgrade", "-t", "2", "--watch", "45", "--calls")
    replaced = trials("-f", "replace", "-t", "2", "--watch", "130", "--calls")
    for t in replaced:
        once_and_over(t)
    upgraded += trials("-f", "cut", "-t", "1", "--watch", "70")
    for t in upgraded:
        unobserved_once(t)
    for bad in (["-n", "100"], ["-f", "stop,nothing"], ["--step", "x"], ["--loss", "2"]):
        assert "sim cluster" in cluster(*bad, status=2).stderr
    print("ok")


if __name__ == "__main__":
    main()
