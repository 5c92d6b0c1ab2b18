# SPDX-License-Identifier: Apache-2.0
"""On a machine with four or eight NVIDIA GPUs and PyTorch: faults in jobs of nested groups (nestedjob.py), N (10) of
each kind, each in a job of its own on a rank drawn by SEED: stop, kill, hang, lock (jobs side by side), kernel-one,
kernel-all (one after the other: GPUs would be shared). One `watch` and one `record` of this program's descendants run
all the while, as a host's do, and an autopsy is made of each job after its fault. Right: both sessions and the autopsy
name that rank and no other of that job, with the call site where the fault has one. Arguments: kinds (default: all).
LAYOUT=tp=2,dp=2,pp=1 (four GPUs), tp=2,dp=2,pp=2 (eight). Prints a JSON line a trial and one a kind; recordings stay in
OUT_DIR."""
import collections
import concurrent.futures
import json
import os
import random
import signal
import subprocess
import sys
import time

import gpujob
import jobfault
from gpujob import OUT, RANKTRACE, findings, say

KINDS = ("stop", "kill", "hang", "lock", "kernel-one", "kernel-all")
N = int(os.environ.get("N", 10))
LAYOUT = os.environ.get("LAYOUT", "tp=2,dp=2,pp=1")
SIDE_BY_SIDE = int(os.environ.get("SIDE_BY_SIDE", 5))
STEADY_S = 6  # a job's habits are known
AUTOPSY_S = 5  # after the fault
NAMED_MOST_S = 14
JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nestedjob.py")


class Session:
    """Of this process and its descendants; its findings go to a file."""

    def __init__(self, tier):
        self.jsonl = f"{OUT}/nested-{tier}.jsonl"
        self.process = subprocess.Popen([RANKTRACE, tier, "--json", "--phases=no", "-o", f"{OUT}/nested-{tier}.rtr",
                                         "--pid", str(os.getpid())],
                                        stdout=open(self.jsonl, "w"), stderr=open(f"{OUT}/nested-{tier}.err", "w"))

    def reported(self, job):
        with open(self.jsonl, encoding="utf-8") as f:
            return [x for x in findings(f.read().rpartition("\n")[0]) if (x.get("job") or "").startswith(job)]

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(120)


class Trial:
    def __init__(self, kind, number, sessions, gate=""):
        draw = random.Random(f"{os.environ.get('SEED', 1)} {kind} {number}")
        self.kind, self.tag, self.sessions, self.gate = kind, f"nested-{kind}-{number}", sessions, gate
        self.victim = draw.randrange(gpujob.GPUS)
        own_fault = [] if kind in ("stop", "kill") else [f"--fault={kind}:rank={self.victim},at={STEADY_S}"]
        self.job = gpujob.Ranks(self.tag, JOB, "--layout", LAYOUT, "--gate", gate, *own_fault)
        self.autopsy = []

    def begin_ns(self):
        """When the fault came; 0: not yet."""
        if self.kind not in ("stop", "kill"):
            return gpujob.fault_line(self.tag)[1]
        if self.job.steady_s() < STEADY_S:
            return 0
        self.job.signal(self.victim, signal.SIGSTOP if self.kind == "stop" else signal.SIGKILL)
        return time.monotonic_ns()

    def run(self):
        if self.gate:
            with open(self.gate, "w", encoding="utf-8"):
                pass
        end = time.monotonic() + 90
        while not (begin := self.begin_ns()):
            if time.monotonic() > end:
                self.job.end()
                say(self.tag, right=False, void="no fault came", job=self.job.text()[-1500:])
                return False
            time.sleep(0.05)
        time.sleep(AUTOPSY_S)
        look = subprocess.run([RANKTRACE, "autopsy", "--json", *self.job.pid_options()], capture_output=True, text=True,
                              timeout=60)
        self.autopsy = findings(look.stdout)
        while time.monotonic_ns() < begin + NAMED_MOST_S * 1e9 and not all(self.named(s, begin) for s in self.sessions):
            time.sleep(0.1)
        time.sleep(0.5)
        found = {s: self.sessions[s].reported(self.job.name) for s in self.sessions}
        self.job.end()
        return self.judge(found, begin)

    def named(self, session, begin):
        return any(self.is_right(f) and f["t_ns"] > begin for f in self.sessions[session].reported(self.job.name))

    def is_right(self, f):
        return f["severity"] != "info" and f["ranks"] == [self.victim]

    def judge(self, found, begin):
        told = {name: self.told(fs, begin) for name, fs in {**found, "autopsy": self.autopsy}.items()}
        right = all(t["named"] and t["at_call_site"] and not t["wrong"] for t in told.values())
        say(self.tag, right=right, victim=self.victim, told=told)
        return right

    def told(self, fs, begin):
        site = jobfault.call_site(self.kind)
        ours = [f for f in fs if f["phase"] != "close"]
        named = next((f for f in ours if self.is_right(f)), None)
        return {"named": named and [named["severity"], named["kind"], named["class"], named["cause"]],
                "after_s": named and round((named["t_ns"] - begin) / 1e9, 2),
                "critical_after_s": next((round((f["t_ns"] - begin) / 1e9, 2) for f in ours
                                          if self.is_right(f) and f["severity"] == "critical"), None),
                "at_call_site": not site or any(site in f["evidence"].get("python", "") for f in ours
                                                if self.is_right(f)),
                "site": named and (named["evidence"].get("python") or named["evidence"].get("native_frame")),
                "gpu_states": next((f["evidence"]["gpu_states"] for f in ours if "gpu_states" in f["evidence"]), None),
                "wrong": [[f["severity"], f["kind"], f["class"], f["ranks"], f["summary"]] for f in ours
                          if f["severity"] != "info" and f["ranks"] not in ([self.victim], [])]}


def side_by_side(kinds, sessions):
    trials = [(kind, i) for i in range(N) for kind in kinds]
    with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        yield from zip((kind for kind, _ in trials), pool.map(lambda t: Trial(*t, sessions).run(), trials))


def in_turn(kinds, sessions):
    """The next job has loaded its libraries, and touches no GPU before this one has ended."""
    trials = [(kind, i) for i in range(N) for kind in kinds]

    def made(t):
        return Trial(*t, sessions, gate=f"{OUT}/gate-{t[0]}-{t[1]}")
    following = made(trials[0]) if trials else None
    for i, t in enumerate(trials):
        trial, following = following, made(trials[i + 1]) if i + 1 < len(trials) else None
        yield t[0], trial.run()


def main():
    os.makedirs(OUT, exist_ok=True)
    kinds = sys.argv[1:] or KINDS
    sessions = {tier: Session(tier) for tier in ("watch", "record")}
    right = collections.Counter()
    on_gpu = [k for k in kinds if k.startswith("kernel")]
    for parts, trials in ((side_by_side, [k for k in kinds if k not in on_gpu]), (in_turn, on_gpu)):
        for kind, is_right in parts(trials, sessions):
            right[kind] += is_right
    for s in sessions.values():
        s.stop()
    for kind in kinds:
        say(f"nested-{kind}", layout=LAYOUT, trials=N, right=right[kind])
    print(json.dumps({t: open(f"{OUT}/nested-{t}.err", encoding="utf-8").read().splitlines()[-6:] for t in sessions}))


main()
