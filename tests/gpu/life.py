# SPDX-License-Identifier: Apache-2.0
"""On a machine with NVIDIA GPUs and PyTorch: what is said of an ordinary job's life (lifejob.py), in each tier, and of
faults inside it. Parts (arguments; default: watch record): watch, record (SECONDS=300 of life: no critical finding, at
most one warning for each call site), watch-FAULT, record-FAULT with FAULT of hang, lock, stop, kill, kernel-one,
kernel-all, kernel-forward (named, and critical where it is permanent). RANKS (default: the GPUs, at least 2). Prints
one JSON line a part; recordings stay in OUT_DIR."""
import collections
import json
import os
import signal
import subprocess
import sys
import time

import gpujob
from gpujob import ENV, GPUS, OUT, RANKTRACE, fault_line, findings, say

RANKS = int(os.environ.get("RANKS", max(2, GPUS)))
SECONDS = float(os.environ.get("SECONDS", 300))
FAULT_AT_S = 75  # behind the first checkpoint and into the second epoch
gpujob.TRAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lifejob.py")


def start(tag, *args):
    for name in os.listdir(OUT):
        if name.startswith(f"{tag}."):
            os.unlink(f"{OUT}/{name}")
    return subprocess.Popen(gpujob.torchrun(tag, *args, gpus=RANKS), env=ENV, stdout=open(f"{OUT}/{tag}.job", "w"),
                            stderr=subprocess.STDOUT, start_new_session=True)


def session(tier, tag, job):
    """A tracer on the launcher and what it starts."""
    return subprocess.Popen([RANKTRACE, tier, "--json", "-o", f"{OUT}/{tag}.rtr", "--pid", str(job.pid)],
                            stdout=subprocess.PIPE, stderr=open(f"{OUT}/{tag}.err", "w"), text=True)


def stop(process):
    process.send_signal(signal.SIGINT)
    return findings(process.communicate(timeout=60)[0])


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


def life(tier):
    tag = f"life-{tier}"
    job = start(tag, "--seconds", SECONDS - 20)
    time.sleep(3)
    tracer = session(tier, tag, job)
    try:
        job.wait(SECONDS + 60)
    except subprocess.TimeoutExpired:
        gpujob.end(job)
    reported = worst(stop(tracer))
    sites = collections.Counter(f["evidence"].get("python") or f["evidence"].get("native_frame") or f["cause"]
                                for f in reported if f["severity"] == "warning")
    critical = [short(f) for f in reported if f["severity"] == "critical"]
    say(tag, right=not critical and all(n == 1 for n in sites.values()), steps=steps(tag), seconds=SECONDS,
        critical=critical, warnings=dict(sites), findings=[short(f) for f in reported],
        life=collections.Counter(line.split()[1] for line in open(f"{OUT}/{tag}.life.0")), job_exit=job.returncode,
        stderr=open(f"{OUT}/{tag}.err").read().splitlines()[-4:],
        job_end=open(f"{OUT}/{tag}.job").read()[-300:] if job.returncode else "")


def rank_pid(tag, rank):
    return gpujob.rank_pids(tag)[rank]


def ended_after(job, seconds):
    """Waits so long; None if the job lives then. torchrun ends a job soon after one of its ranks died."""
    begin = time.monotonic()
    try:
        job.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    ended_s = round(time.monotonic() - begin, 2)
    time.sleep(3)
    return ended_s


def fault(tier, name):
    tag, victim = f"life-{tier}-{name}", RANKS - 1
    outside = name in ("stop", "kill")
    job = start(tag, "--seconds", 600, "--first-store-s", 10,
                *([] if outside else ["--fault", f"{name}:rank={victim},at={FAULT_AT_S}"]))
    time.sleep(3)
    tracer = session(tier, tag, job)
    time.sleep(FAULT_AT_S)
    begin_ns = time.monotonic_ns()
    if outside:
        os.kill(rank_pid(tag, victim), signal.SIGSTOP if name == "stop" else signal.SIGKILL)
    ended_s = ended_after(job, 55)
    reported = stop(tracer)
    gpujob.end(job)
    begin_ns = begin_ns if outside else fault_line(tag)[1]
    after = [f for f in reported if f["t_ns"] > begin_ns and f["phase"] != "close"
             and f["kind"] in ("hang", "stopped", "straggler")]
    named = next((f for f in after if f["severity"] != "info" and f["ranks"]), None)
    critical = next((f for f in after if f["severity"] == "critical"), None)
    wrong = [short(f) for f in after if f["severity"] != "info" and f["ranks"] not in ([victim], [])]
    over = name == "kill" and ended_s is not None and ended_s < 5  # no peer is left that waits
    say(tag, right=(named["ranks"] == [victim] if named else over) and not wrong, named=named and short(named),
        wrong=wrong, job_ended_after_s=ended_s,
        named_after_s=named and round((named["t_ns"] - begin_ns) / 1e9, 2), critical=critical and short(critical),
        critical_after_s=critical and round((critical["t_ns"] - begin_ns) / 1e9, 2),
        gpus=(critical or named or {}).get("evidence", {}).get("gpu_states"),
        before=[short(f) for f in worst([f for f in reported if f["t_ns"] <= begin_ns])])


def main():
    os.makedirs(OUT, exist_ok=True)
    for part in sys.argv[1:] or ["watch", "record"]:
        tier, _, name = part.partition("-")
        if name:
            fault(tier, name)
        else:
            life(tier)


main()
