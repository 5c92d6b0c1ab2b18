# SPDX-License-Identifier: Apache-2.0
"""SIGHUP: `watch --config F` takes the settings of F that can change while it runs and keeps what it knows. A file with
an error changes nothing; what needs a restart is said. A replay has the findings of the thresholds of their time."""
import glob
import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import cost
import job
import outside


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def reload(s, path, text, said, timeout=10):
    """The answer to it."""
    before = len(s.stderr())
    write(path, text)
    s.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if re.search(said, s.stderr()[before:]):
            return
        time.sleep(0.05)
    job.fail(f"'{said}' is not said within {timeout} s, but: {s.stderr()[before:]}")


def errors(s, path, good):
    for bad, said in (("hang-limit = soon\n", r":{line}: hang-limit: 'soon' is not a number of seconds above 0"),
                      ("hang-limt = 2\n", r":{line}: 'hang-limt' is not a setting"),
                      ("raise = perhaps\n", r":{line}: raise: 'perhaps' is neither 'yes' nor 'no'"),
                      ("keep = 3\n", r"--keep without --rotate")):
        line = good.count("\n") + 1
        reload(s, path, good + bad, said.format(line=line) + r"[^\n]*(\n[^\n]*)?nothing was changed")
    reload(s, path, good, "nothing changed")


def replayed(s, live):
    """What is written by now says the same: it knows of the limits."""
    time.sleep(1.5)  # it is flushed once a second
    out = subprocess.run([job.RANKTRACE, "replay", "-q", "--json", s.rtr], capture_output=True, text=True)
    job.check(live in [json.loads(line) for line in out.stdout.splitlines()], f"live {live}\n{out.stdout}{out.stderr}")


def probes(s):
    """Its tracers of probes are loaded: at the first raise."""
    return len(cost.bpf_maps(s.process.pid)) > 25


def main():
    job.need_root()
    try:
        os.setsid()  # with a terminal SIGHUP says that this is gone
    except PermissionError:
        pass
    rng, _ = job.seed()
    rank = rng.randrange(4)
    with autopsies.Autopsy(["--ranks", 4, "--steps", 4000, "--step-ms", 40, "--seed", rng.randrange(1 << 30),
                            "--fault", f"hang:rank={rank},step=60"]) as a:
        path = f"{a.dir}/watch.conf"
        base = "hang-limit = 500\nraise = no # for now\n"
        write(path, base)
        s = outside.Session(a, "watch", "--config", path)
        end = time.monotonic() + 60
        while not job.lines(a.fault_log) and time.monotonic() < end:
            time.sleep(0.1)
        time.sleep(4)
        job.check(not s.hangs(), f"a hang before its limit of 500 s: {s.findings}")
        errors(s, path, base)
        reload(s, path, base + "ring-size = 131072\njob = other\n", "job, ring-size: needs a restart, stays as it was")
        reload(s, path, "hang-limit = 1.5\nraise = no\nbudget = 3\nflight-keep = 7\n",
               "changed: hang-limit, budget, budget-node, flight-keep")
        h = s.wait(30, kind="hang", phase="open")
        outside.check_rank(s, h, rank, "missing_enter")
        job.check(not probes(s), "probed although raise = no")
        replayed(s, h)
        reload(s, path, "hang-limit = 1.5\nraise-for = 5\nrotate = 1s\n",
               "changed: budget, budget-node, raise, raise-for, flight-keep, rotate")
        end = time.monotonic() + 30
        while not probes(s) and time.monotonic() < end:
            time.sleep(0.1)
        job.check(probes(s), f"raise = yes again, and nothing is probed: {s.stderr()}")
        while not glob.glob(s.rtr + ".[0-9]*") and time.monotonic() < end:
            time.sleep(0.1)
        job.check(glob.glob(s.rtr + ".[0-9]*"), f"rotate = 1s, and no new file: {os.listdir(a.dir)}")
        job.check(s.process.poll() is None, f"the daemon ended: {s.stderr()}")
        s.process.send_signal(signal.SIGTERM)
        job.check(s.process.wait(60) == 1, f"exit code is not 1: {s.stderr()}")
        job.check(not s.others(rank), f"others are named: {s.others(rank)}")
        print(f"  rank {rank} named {(h['t_ns'] - h['since_ns']) / 1e9:.1f} s after it was missed, by the new limit")


main()
