# SPDX-License-Identifier: Apache-2.0
"""Two jobs of one name and size, as torchrun's default makes them in two pods, each in a network namespace of its own:
a fault in one names that one, and nobody of the other; ps distinguishes them, and --job takes one of them."""
import json
import os
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import faults
import job
import outside

NAME = f"same-{os.getpid()}"
ARGS = ["--ranks", 4, "--steps", 100000, "--step-ms", 50, "--job-id", NAME]


def netns_of(pid):
    return os.readlink(f"/proc/{pid}/ns/net")[len("net:["):-1]


def listed():
    out = subprocess.run([job.RANKTRACE, "ps", "--json"], capture_output=True, text=True)
    return [p for p in map(json.loads, out.stdout.splitlines()) if p["job"].startswith(NAME)]


def check_ps(pids):
    """Each has a name that tells its network namespace, and all ranks."""
    for pid in pids:
        shown = f"{NAME} (netns {netns_of(pid)})"
        ranks = sorted(p["rank"] for p in listed() if p["job"] == shown and not p["is_child"])
        job.check(ranks == [0, 1, 2, 3], f"ps: {shown} has ranks {ranks}: {listed()}")


def pids_of(a):
    return {o["pid"] for o in job.lines(a.ops_log)}


def two_jobs(rng, command):
    rank, step, number = faults.draw(rng, ranks=4, first=60, last=90)
    inside = ("unshare", "--net", "--")
    ill = autopsies.Autopsy([*ARGS, "--seed", number, "--fault", f"hang:rank={rank},step={step},sec=60"], within=inside)
    well = autopsies.Autopsy([*ARGS, "--seed", number + 1], within=inside)
    with ill, well:
        end = time.monotonic() + 30
        while time.monotonic() < end and min(len(pids_of(ill)), len(pids_of(well))) < 4:
            time.sleep(0.1)
        check_ps([ill.process.pid, well.process.pid])
        s = outside.Session(ill, command, "--pid", well.process.pid)
        f = s.wait(60, kind="hang", phase="open")
        outside.check_rank(s, f, rank, "missing_enter")
        job.check(f["job"] == f"{NAME} (netns {netns_of(ill.process.pid)})", f"job {f['job']}")
        time.sleep(3)
        s.stop()
        job.check(not s.others(rank), f"others are named: {s.others(rank)}")
        named = {p for f in s.findings for p in f["pids"]}
        job.check(named <= pids_of(ill), f"{named} has processes of the other job: {pids_of(well)}")
        print(f"  {command}: rank {rank} of {f['job']}, nobody of the other")


def one_chosen(rng):
    """--job with a namespace takes that job alone; with the name that both have, both."""
    with autopsies.Autopsy([*ARGS, "--seed", rng.randrange(1 << 30)], within=("unshare", "--net", "--")) as a, \
            autopsies.Autopsy([*ARGS, "--seed", rng.randrange(1 << 30)], within=("unshare", "--net", "--")) as b:
        end = time.monotonic() + 30
        while time.monotonic() < end and min(len(pids_of(a)), len(pids_of(b))) < 4:
            time.sleep(0.1)
        for chosen, n in ((f"{NAME} (netns {netns_of(a.process.pid)})", 4), (NAME, 8)):
            out = subprocess.run([job.RANKTRACE, "autopsy", "--job", chosen], capture_output=True, text=True)
            job.check(out.returncode == 0, f"autopsy --job '{chosen}': {out.returncode} {out.stdout} {out.stderr}")
            seen = sum(f" {pid} " in out.stdout or f"pid {pid}" in out.stdout for pid in pids_of(a) | pids_of(b))
            job.check(seen == n, f"autopsy --job '{chosen}': {seen} ranks instead of {n}\n{out.stdout}")


def main():
    job.need_root()
    rng, _ = job.seed()
    for command in ("watch", "record"):
        two_jobs(rng, command)
    one_chosen(rng)


main()
