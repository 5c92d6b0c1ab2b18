# SPDX-License-Identifier: Apache-2.0
"""The flight recorder: a hang late in a job is dumped by itself, and the dump, which begins long after the job did,
names the same rank, class, communicator, operation and number. On a healthy job SIGUSR1 and `ranktrace dump` write the
window; memory and files stay bounded over many windows."""
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import flights
import job

job.need_root()
rng, _ = job.seed()


def dump(*args):
    return subprocess.run([job.RANKTRACE, "dump", *args], capture_output=True, text=True, timeout=120)


def check_peak(j, limit_mb):
    peak = float(re.search(r"at most ([0-9.]+) MB held", j.stderr()).group(1))
    job.check(peak <= limit_mb, f"{peak} MB held, limit {limit_mb}")
    return peak


def on_a_finding():
    where = flights.own_places("flight-finding")
    rank, step, number = rng.randrange(4), rng.randrange(150, 180), rng.randrange(1 << 30)
    layout = rng.choice(["dp=4", "tp=2,dp=2", "dp=2,pp=2"])
    kind = rng.choice(["hang", "stop"])
    j = job.Job(["--ranks", 4, "--layout", layout, "--steps", 1000, "--step-ms", 60, "--seed", number, "--fault",
                 f"{kind}:rank={rank},step={step}"], ["--flight=" + where, "--flight-seconds", 8], name="flight")
    live = j.wait_finding(120, kind="hang", phase="open")
    job.check(live and live["ranks"] == [rank], f"rank {rank} was not named: {j.findings}\n{j.stderr()}")
    base = flights.wait_finding(where, j, live["id"])
    job.check(re.search(r"-(hang|straggler)$", base), base)  # one that this busy machine made a straggler first
    job.check(j.stop() == 1, "exit code is not 1")
    begin, n, first = flights.check_ops(j, base)
    print(f"  {kind}: {flights.check_timeline(base)}; {n} operations, from {(begin - first) / 1e9:.1f} s after the "
          f"first on")
    job.check(begin > first + 1e9, "the window holds the job's start: this shows nothing")
    again = [f for f in flights.replay(base, "--json") if f["phase"] == "open" and f["kind"] == "hang"]
    job.check(len(again) == 1 and all(again[0][k] == live[k] for k in flights.LIVE), f"live {live}\nreplayed {again}")
    reported = [f for f in job.lines(base + ".jsonl") if f["kind"] == "hang"]
    job.check(len(reported) == 1 and all(reported[0][k] == live[k] for k in flights.LIVE),
              f"live {live}\ntold {reported}")
    job.check("too short" not in j.stderr(), j.stderr())
    n_roots = len({f["id"] for f in j.roots()})
    job.check(len(flights.bases(where)) <= n_roots, f"{n_roots} roots, dumps: {flights.bases(where)}")
    j.check_replay()


def on_demand():
    where = flights.own_places("flight-demand")
    out = dump()
    job.check(out.returncode == 2 and "no ranktrace with a flight recorder runs" in out.stderr, f"{out}")
    j = job.Job(["--ranks", 4, "--steps", 5000, "--step-ms", 60, "--seed", rng.randrange(1 << 30), "--graph",
                 rng.choice(["step", "layers"])],
                ["--flight=" + where, "--flight-seconds", 2, "--flight-mb", 1, "--flight-keep", 2], name="flight")
    j.wait_begun(4)
    j.process.send_signal(signal.SIGUSR1)
    first = flights.wait_base(where, j, lambda base: base.endswith("-signal"))
    for n, args in enumerate([[], ["--pid", str(j.process.pid)]]):
        out = dump(*args)
        job.check(out.returncode == 0, f"{out}")
        paths = out.stdout.split()
        base = paths[0][:-len(".pftrace")]
        job.check([base + s for s in (".pftrace", ".rtr", ".jsonl")] == paths, f"{paths}")
        job.check(all(os.path.exists(p) for p in paths) and "-command" in base, f"{paths}")
        print(f"  dump {n}: {flights.check_timeline(base)}")
        time.sleep(3)
    out = dump("--pid", "1")
    job.check(out.returncode == 2 and "no ranktrace with a flight recorder" in out.stderr, f"{out}")
    j.stop()
    live = {(f["kind"], *f["ranks"]) for f in j.findings}  # a busy machine may make a straggler of a rank
    left = flights.bases(where)
    job.check(len(left) == 2 and first not in left, f"--flight-keep 2 keeps {left}")
    for base in left:
        begin, n, start = flights.check_ops(j, base)
        print(f"  {n} operations, from {(begin - start) / 1e9:.1f} s after the first on")
        job.check(begin > start + 1e9, "the window holds the job's start")
        extra = {(f["kind"], *f["ranks"]) for f in flights.replay(base, "--json")} - live
        job.check(not extra, f"found in the window and not by the session: {extra}")
    print(f"  at most {check_peak(j, 1.3)} MB held, limit 1 MB and a chunk")
    job.check(not os.listdir(os.environ["RANKTRACE_RUN_DIR"]), "the session left its file behind")
    j.check_replay()


def on_a_full_disk():
    where = flights.own_places("flight-full")
    os.makedirs(where)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", where], capture_output=True, text=True)
    if mounted.returncode:
        print(f"  full disk: not tried, no tmpfs can be mounted: {mounted.stderr.strip()}")
        return
    try:
        j = job.Job(["--ranks", 4, "--steps", 5000, "--step-ms", 40, "--seed", rng.randrange(1 << 30)],
                    ["--flight=" + where], name="flight")
        j.wait_begun(2)
        out = dump()
        job.check(out.returncode == 4 and "No space left on device" in out.stderr and "make room" in out.stderr,
                  f"{out}")
        job.check(not os.listdir(where), f"left behind: {os.listdir(where)}")
        job.check(j.stop() in (0, 1), f"the session suffered: {j.stderr()}")
        job.check("no dump was written" in j.stderr() and "the session goes on" in j.stderr(), j.stderr())
        j.check_replay()
        print(f"  full disk: {out.stderr.strip()}")
    finally:
        subprocess.run(["umount", "-l", where])


on_a_finding()
on_demand()
on_a_full_disk()
