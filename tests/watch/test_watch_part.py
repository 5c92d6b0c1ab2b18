# SPDX-License-Identifier: Apache-2.0
"""watch --pid of some ranks of a job, and one of the others hangs: it has a process, which was not asked for, and so it
is not one that died. The recording says that ranks are left out, once; asked for all of them it does not, whatever
another user's process says of itself, and the rank is named. Replays say the same."""
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import job
import outside
import rtr

RANKS, STEP = 4, 400
RECORD_PARTIAL = 49


def ranks_wait(a, timeout=30):
    """The pid of each."""
    end, pids = time.monotonic() + timeout, {}
    while len(pids) < RANKS:
        job.check(time.monotonic() < end, f"the job does not begin: {pids}")
        time.sleep(0.1)
        pids = {o["rank"]: o["pid"] for o in job.lines(a.ops_log)}
    return pids


def forged(pid):
    """Another user's process that says it is that rank."""
    with open(f"/proc/{pid}/environ", encoding="utf-8") as f:
        env = dict(e.split("=", 1) for e in f.read().split("\0") if "=" in e)
    return subprocess.Popen(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sleep", "60"], env=env)


def hang(rng, everyone, wait_s):
    victim = rng.randrange(RANKS)
    with autopsies.Autopsy(["--ranks", RANKS, "--steps", 1000000, "--seed", rng.randrange(1 << 30), "--fault",
                            f"hang:rank={victim},step={STEP}"]) as a:
        pids = ranks_wait(a)
        some = [pid for rank, pid in pids.items() if everyone or rank != victim]
        stranger = forged(pids[victim]) if everyone else None
        s = outside.Session(a, "watch", "--no-raise", pids=some)
        a.wait_fault("hang")
        found = s.wait(wait_s, kind="hang", phase="open")
        s.stop()
        if stranger:
            stranger.kill()
            stranger.wait()
        n = sum((tracer, kind) == (rtr.COLLECTOR, RECORD_PARTIAL) for tracer, kind, *_ in rtr.records(s.rtr))
    return victim, found, n, [f for f in s.findings if f["kind"] == "hang"], s.stderr()


job.need_root()
rng, _ = job.seed()
with autopsies.Autopsy(["--ranks", 2, "--steps", 1000000, "--step-ms", 50, "--seed", 1]):  # its ranks are no part of it
    victim, found, n, _, err = hang(rng, True, 15)
    job.check(found and found["ranks"] == [victim] and found["cause"] == "asleep" and n == 0, f"{n} {found} {err}")
    print(f"  all {RANKS}: rank {victim} asleep")
    victim, _, n, hangs, err = hang(rng, False, 8)
    job.check(n == 1, f"{n} records: {err}")
    job.check(not hangs, f"rank {victim} was not asked for: {hangs}")
    print(f"  all but rank {victim}, which hangs: not a rank that died")
