# SPDX-License-Identifier: Apache-2.0
# runs beside few: judges the speed of ranks, to a quarter
"""ranktrace watch on a job that becomes slower: its counters show it without a probe, its ranks are probed by
themselves, the probes name the straggler, and go again. A job that is only looked at, and evaluates and writes
checkpoints meanwhile, is left alone."""
import os
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import job
import outside
from test_watch_raise import probed, uprobes, wait_probes

RAISE_S = 25
STEP_MS = 80


def slow(rng):
    rank, step, number = rng.randrange(4), rng.randrange(450, 480), rng.randrange(1 << 30)
    args = ["--ranks", 4, "--steps", 20000, "--step-ms", STEP_MS, "--seed", number, "--fault",
            f"slow:rank={rank},step={step},percent=120"]
    with autopsies.Autopsy(args) as a:
        s = outside.Session(a, "watch", "--raise-for", RAISE_S)
        begin = a.wait_fault("slow", 120)
        job.check(not uprobes(s), f"before the fault: {uprobes(s)} probes, {s.findings}")
        f = s.wait(60, kind="slow_step", phase="open")
        job.check(f and not f["ranks"] and f["evidence"].get("known_from") == "counters",
                  f"not seen: {s.findings}\n{s.stderr()}")
        e, late = f["evidence"], (f["t_ns"] - begin["t_ns"]) / 1e9
        print(f"  {e['slower_percent']:.0f} % slower, seen {late:.1f} s after rank {rank} became so")
        job.check(e["slower_percent"] >= 25 and e["ops_per_s"] < e["ops_per_s_before"], f"{e}")
        job.check(late <= 15, f"{late:.1f} s")
        wait_probes(s, True, 20)
        g = s.wait(RAISE_S + 30, kind="straggler", phase="open")
        job.check(g and g["ranks"] == [rank], f"rank {rank} is slow, named is {g}: {s.findings}\n{s.stderr()}")
        named = (g["t_ns"] - f["t_ns"]) / 1e9
        print(f"  named {named:.1f} s later")
        # The pace opened first and stays the root: who is slow explains it (decision 230).
        job.check(g["caused_by"] == f["id"] and g.get("explains"), f"it does not explain the slower pace: {s.findings}")
        wait_probes(s, False, RAISE_S + 40)
        job.check(s.stop() == 1, "exit code is not 1")
        job.check(not s.others(rank), f"others are named: {s.others(rank)}")
        raised = {r for r, w in probed(s.rtr) if w.startswith("probed:")}
        job.check(raised == set(range(4)), f"probed were {raised}")


def healthy(rng):
    number, first = rng.randrange(1 << 30), rng.randrange(300, 340)
    args = ["--ranks", 4, "--steps", 20000, "--step-ms", STEP_MS, "--seed", number, "--fault",
            f"phase:what=checkpoint,step={first}",
            "--fault", f"phase:what=eval,step={first + 80}"]
    with autopsies.Autopsy(args) as a:
        s = outside.Session(a, "watch")
        end = time.monotonic() + (120 if job.LONG else 50)
        seen = []
        while time.monotonic() < end:
            seen += [f for f in s.findings if f["kind"] == "slow_step"]
            job.check(not seen, f"a healthy job is said to be slower: {seen}")
            time.sleep(0.5)
        job.check(s.stop() in (0, 1) and not s.others(None), f"{s.findings}")
        # a checkpoint of one rank is observed, and probed: that is another rule's affair
        reported = [w for _, w in probed(s.rtr) if w.startswith("probed:")]
        why = [f for f in s.findings if f["kind"] == "observation"]
        job.check(not reported or why, f"probed without a finding: {reported}")
        print(f"  healthy: nobody raised for its pace; {len(reported)} probed for "
              f"{[f['cause'] for f in why if f['phase'] == 'open']}")


def main():
    """Both at once: each of the jobs sleeps most of the time."""
    job.need_root()
    rng, number = job.seed()
    if "healthy" in sys.argv:
        return healthy(rng)
    beside = subprocess.Popen([sys.executable, "-B", __file__, "healthy"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, env=dict(os.environ, SEED=str(number + 1)))
    try:
        slow(rng)
    finally:
        text, _ = beside.communicate(timeout=200)
        print(text, end="")
    job.check(beside.returncode == 0, "beside a healthy job: see above")


if __name__ == "__main__":
    main()
