# SPDX-License-Identifier: Apache-2.0
# runs alone: judges threads that lack CPU
"""F14: a rank's proxy thread gets no CPU, and the whole job creeps: that rank is named and no other, with its thread,
which is off the CPU; by the counters that watch reads, no probe in it."""
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import faults
import job
import outside

RANKS = 4
WAIT_S = 60  # the job creeps meanwhile, and samples that show it may be far apart


def wait_either(s):
    """It has two causes: the thread stands, or it creeps."""
    end, f = time.monotonic() + WAIT_S, None
    while not f and time.monotonic() < end:
        f = s.wait(0.3, cause="proxy_thread", phase="open") or s.wait(0.3, cause="proxy_starved", phase="open")
    return f


def starved(rng):
    rank, step, number = faults.draw(rng, RANKS, first=40, last=80)
    net = rng.choice(("unix", "tcp"))
    with autopsies.Autopsy(["--ranks", RANKS, "--steps", 4000, "--step-ms", 50, "--seed", number, f"--net={net}",
                            "--fault", f"proxy:rank={rank},step={step},how=starve,n=6"]) as a:
        s = outside.Session(a, "watch", "--no-raise")
        truth = a.wait_fault("proxy")
        f = wait_either(s)
        job.check(f, f"not reported: {s.findings}\n{s.stderr()}")
        e, late = f["evidence"], (f["t_ns"] - truth["t_ns"]) / 1e9
        print(f"  {f['kind']}/{f['cause']} {f['ranks']}: its thread waited {e['runqueue_wait_share']:.2f} of the time, "
              f"{late:.2f} s "
              f"after the fault")
        job.check(f["ranks"] == [rank] and f["pids"] == [truth["pid"]], f"named {f['ranks']}, not {truth}")
        job.check(e["tid"] == truth["tid"] and e["runqueue_wait_share"] >= 0.5, f"{e} is not {truth}")
        job.check(s.stop() == 1, "exit code is not 1")
        wrong = [x for x in s.findings if x["ranks"] not in ([], [rank]) and x["kind"] != "observation"]
        job.check(not wrong, f"others are named: {wrong}")
        job.result("proxy:starve", late)


job.need_root()
rng, _ = job.seed()
for _ in range(job.TRIALS):
    starved(rng)
