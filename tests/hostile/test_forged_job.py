# SPDX-License-Identifier: Apache-2.0
"""Another user's process with the whole environment of a rank of the job, and the job's library mapped: it is a job of
its own, and nothing is said of the real one."""
import json
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import hostile
import job

SEEN_S = 3  # several scans of the host


def environment(pid):
    with open(f"/proc/{pid}/environ", "rb") as f:
        return dict(v.split(b"=", 1) for v in f.read().split(b"\0") if b"=" in v)


def jobs_by_pid():
    out = subprocess.run([job.RANKTRACE, "ps", "--json"], capture_output=True, text=True, timeout=60)
    job.check(out.returncode == 0, f"ps: exit {out.returncode}: {out.stderr}")
    return {p["pid"]: p.get("job") for p in map(json.loads, out.stdout.splitlines()) if "pid" in p}


def main():
    job.need_root()
    rng, _ = job.seed()
    victim = hostile.Victim(rng, steps=300)
    victim.wait_begun()
    pids = victim.pids()
    library = hostile.fake_library(f"{hostile.place()}/libnccl.so.2", lambda name: "nccl" in name, 0)
    forged = environment(max(pids))
    job.check(b"RANK" in forged and b"WORLD_SIZE" in forged, "no rank to forge: this test would prove nothing")
    attacker = hostile.python(hostile.MAP_ONE, library, env=forged).ready()
    daemon = hostile.Daemon().wait()
    time.sleep(SEEN_S)
    jobs = jobs_by_pid()
    own, other = {jobs.get(p) for p in pids}, jobs.get(attacker.process.pid)
    print(f"  the job is {own}, the other process is of {other!r}")
    job.check(len(own) == 1 and None not in own, f"the job's ranks are of {own}")
    job.check(other is not None, "ps does not show the attacker: this test would prove nothing")
    job.check(other not in own, f"another user's process is of the job {other!r}")
    victim.end()
    attacker.kill()
    daemon.stop()
    hostile.check_no_finding(daemon, pids)
    hostile.check_gap(daemon)


main()
