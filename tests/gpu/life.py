# SPDX-License-Identifier: Apache-2.0
"""On a machine with NVIDIA GPUs and PyTorch: what is said of an ordinary job's life (lifejob.py), and of faults inside
it. A part (arguments; default: both) is TIER, TIER-FAULT or TIER-FAULT+FAULT... (several jobs side by side, each with a
fault of its own), or TIER-endless-N (N jobs in turn with short epochs and an endless kernel on a rank drawn by SEED).
TIER: watch, record, or both (two sessions on the same job). FAULT: hang, lock, stop, kill, kernel-one, kernel-all,
kernel-forward. Life (SECONDS=300): no critical finding, at most one warning for each call site. A fault: its rank is
named and nobody else, and critical where it is permanent. RANKS (default: the GPUs, at least 2). Prints one JSON line
for a session; recordings stay in OUT_DIR."""
import atexit
import collections
import concurrent.futures
import json
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "aid"))
import gpujob
import rtr
from gpujob import ENV, GPUS, OUT, RANKTRACE, fault_line, findings, say

RANKS = int(os.environ.get("RANKS", max(2, GPUS)))
SECONDS = float(os.environ.get("SECONDS", 300))
GAP_MOST_S = 2  # a session that does not move reports nothing, which is no proof of health
FAULT_AT_S = 75  # behind the first checkpoint and into the second epoch
gpujob.TRAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lifejob.py")


def start(tag, *args):
    for name in os.listdir(OUT):
        if name.startswith(f"{tag}."):
            os.unlink(f"{OUT}/{name}")
    return subprocess.Popen(gpujob.torchrun(tag, *args, gpus=RANKS), env=ENV, stdout=open(f"{OUT}/{tag}.job", "w"),
                            stderr=subprocess.STDOUT, start_new_session=True)


class Session:
    """A tracer on the launcher and what it starts; its findings go to a file."""

    def __init__(self, tier, tag, job):
        self.tag, self.jsonl = tag, f"{OUT}/{tag}.jsonl"
        self.process = subprocess.Popen([RANKTRACE, tier, "--json", "-o", f"{OUT}/{tag}.rtr", "--pid", str(job.pid)],
                                        stdout=open(self.jsonl, "w"), stderr=open(f"{OUT}/{tag}.err", "w"))

    def reported(self):
        with open(self.jsonl) as f:
            return findings(f.read().rpartition("\n")[0])

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)
        return self.reported()

    def longest_gap_s(self):
        """The longest time in which it judged nothing."""
        ticks = [ts for tracer, kind, _, ts, _ in rtr.records(f"{OUT}/{self.tag}.rtr")
                 if (tracer, kind) == (rtr.COLLECTOR, rtr.RECORD_TICK)]
        return round(max((b - a for a, b in zip(ticks, ticks[1:])), default=0) / 1e9, 2)


def steps(tag):
    try:
        return sum(1 for _ in open(f"{OUT}/{tag}.steps.0"))
    except FileNotFoundError:
        return 0


def worst(reported):
    """The newest line of each finding, with the worst severity that it had."""
    order, newest = {"info": 0, "warning": 1, "critical": 2}, {}
    for f in reported:
        before = newest.get(f["id"], f)
        severity = max(f["severity"], before["severity"], key=order.get)
        newest[f["id"]] = {**(before if f["phase"] == "close" else f), "severity": severity}
    return list(newest.values())


def short(f):
    e = f["evidence"]
    return {k: v for k, v in (("severity", f["severity"]), ("kind", f["kind"]), ("class", f["class"]),
                              ("cause", f["cause"]), ("ranks", f["ranks"]), ("python", e.get("python")),
                              ("native", e.get("native_frame")), ("waits_for", e.get("waits_for")),
                              ("cost_s", f.get("cost_s"))) if v not in (None, [])}


def life(tiers):
    tag = "life"
    job = start(tag, "--seconds", SECONDS - 20)
    time.sleep(3)
    tracers = {tier: Session(tier, f"{tag}-{tier}", job) for tier in tiers}
    try:
        job.wait(SECONDS + 60)
    except subprocess.TimeoutExpired:
        end(tag, job)
    for tier, tracer in tracers.items():
        life_judge(f"{tag}-{tier}", tag, job, worst(tracer.stop()), tracer.longest_gap_s())


def life_judge(name, tag, job, reported, gap_s):
    sites = collections.Counter(f["evidence"].get("python") or f["evidence"].get("native_frame") or f["cause"]
                                for f in reported if f["severity"] == "warning")
    critical = [short(f) for f in reported if f["severity"] == "critical"]
    say(name, right=not critical and all(n == 1 for n in sites.values()) and gap_s < GAP_MOST_S,
        steps=steps(tag), seconds=SECONDS, longest_gap_s=gap_s, critical=critical, warnings=dict(sites),
        findings=[short(f) for f in reported],
        life=collections.Counter(line.split()[1] for line in open(f"{OUT}/{tag}.life.0")), job_exit=job.returncode,
        stderr=open(f"{OUT}/{name}.err").read().splitlines()[-4:],
        job_end=open(f"{OUT}/{tag}.job").read()[-300:] if job.returncode else "")


def rank_pid(tag, rank):
    return gpujob.rank_pids(tag)[rank]


def ended_after(job, seconds, is_enough):
    """Waits so long; None if the job lives then. torchrun ends a job soon after one of its ranks died."""
    begin = time.monotonic()
    while job.poll() is None and time.monotonic() < begin + seconds and not is_enough():
        time.sleep(0.2)
    ended_s = None if job.poll() is None else round(time.monotonic() - begin, 2)
    time.sleep(3)
    return ended_s


def end(tag, job):
    """This job and no other: stopped ranks go on first, torchrun asks them to leave."""
    pattern = f"{gpujob.TRAIN} --prefix={OUT}/{tag} "
    subprocess.run(["pkill", "-CONT", "-f", pattern])
    job.terminate()
    try:
        job.wait(5)
    except subprocess.TimeoutExpired:
        job.kill()
    subprocess.run(["pkill", "-9", "-f", pattern])


def fault(tiers, name, victim=RANKS - 1, tag="", wait_s=40, at_s=FAULT_AT_S, enough=False,
          args=("--first-store-s", 10)):
    """enough: it ends soon after all sessions named somebody."""
    tag = tag or f"life-{name}"
    outside = name in ("stop", "kill")
    job = start(tag, "--seconds", 600, *args,
                *([] if outside else ["--fault", f"{name}:rank={victim},at={at_s}"]))
    time.sleep(3)
    tracers = {tier: Session(tier, f"{tag}-{tier}", job) for tier in tiers}
    time.sleep(at_s)
    begin_ns = time.monotonic_ns()
    if outside:
        os.kill(rank_pid(tag, victim), signal.SIGSTOP if name == "stop" else signal.SIGKILL)
    ended_s = ended_after(job, wait_s, lambda: enough and all(any_named(t, begin_ns, victim) for t in tracers.values()))
    reported = {tier: tracer.stop() for tier, tracer in tracers.items()}
    end(tag, job)
    begin_ns = begin_ns if outside else fault_line(tag)[1]
    return all([fault_judge(f"{tag}-{tier}", name, victim, begin_ns, ended_s, r, tracers[tier].longest_gap_s())
                for tier, r in reported.items()])


def any_named(tracer, begin_ns, rank):
    return any(f["t_ns"] > begin_ns and f["severity"] != "info" and f["ranks"] == [rank] for f in tracer.reported())


def fault_judge(part, name, victim, begin_ns, ended_s, reported, gap_s):
    after = [f for f in reported if f["t_ns"] > begin_ns and f["phase"] != "close"
             and f["kind"] in ("hang", "stopped", "straggler")]
    named = next((f for f in after if f["severity"] != "info" and f["ranks"]), None)
    critical = next((f for f in after if f["severity"] == "critical"), None)
    wrong = [short(f) for f in after if f["severity"] != "info" and f["ranks"] not in ([victim], [])]
    over = name == "kill" and ended_s is not None and ended_s < 5  # no peer is left that waits
    right = bool(begin_ns) and (named["ranks"] == [victim] if named else over) and not wrong
    say(part, right=right, victim=victim, longest_gap_s=gap_s, named=named and short(named),
        wrong=wrong, job_ended_after_s=ended_s,
        named_after_s=named and round((named["t_ns"] - begin_ns) / 1e9, 2), critical=critical and short(critical),
        critical_after_s=critical and round((critical["t_ns"] - begin_ns) / 1e9, 2),
        gpu_states=(critical or named or {}).get("evidence", {}).get("gpu_states"),
        before=[short(f) for f in worst([f for f in reported if f["t_ns"] <= begin_ns])])
    return right


def endless(tiers, n, first=0):
    """Trials first to first + n - 1, of a series that SEED fixes: runs of it can be shared out."""
    kinds, right = ("kernel-one", "kernel-all", "kernel-forward"), 0
    for i in range(first, first + n):
        draw = random.Random(int(os.environ.get("SEED", 1)) * 1000 + i)
        right += fault(tiers, kinds[i % 3], draw.randrange(RANKS), f"endless{i}", wait_s=36, at_s=26, enough=True,
                       args=("--epoch-steps", 24, "--first-store-s", 1, "--store-s", 1))
    say("endless", trials=n, right_in_every_tier=right)


def main():
    os.makedirs(OUT, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    atexit.register(gpujob.kill_ranks)  # a kernel that never ends would be the next run's neighbour
    for part in sys.argv[1:] or ["both"]:
        tier, _, name = part.partition("-")
        tiers = ("watch", "record") if tier == "both" else (tier,)
        if name.startswith("endless-"):
            endless(tiers, *map(int, name.split("-")[1:]))
        elif name:
            with concurrent.futures.ThreadPoolExecutor() as pool:
                for done in [pool.submit(fault, tiers, one) for one in name.split("+")]:
                    done.result()
        else:
            life(tiers)


main()
