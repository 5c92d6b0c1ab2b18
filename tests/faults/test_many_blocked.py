# SPDX-License-Identifier: Apache-2.0
# runs alone with LONG=1: judges how long the collector did not look, beside 16 ranks
# runs beside few: the same, to four times as long
"""A storage freezes under 16 ranks at once and every one's mmap_lock is held: the collector goes on looking, every
rank's D state is found in time, with the evidence that its lock is held, and no rank is accused of anything else."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import job

RANKS, SEC = 16, 8
GAP_S = 0.5
FOUND_S = 6.5

job.need_root()
rng, _ = job.seed()
step = rng.randrange(8, 16)
args = ["--ranks", RANKS, "--steps", 30, "--seed", rng.randrange(1 << 30)]
for rank in range(RANKS):
    args += ["--fault", f"dstate-mm:rank={rank},step={step},sec={SEC}"]
j = job.Job(args, name="many-blocked")
code = j.end(150)
truth = [t for t in job.lines(j.fault_log) if t["phase"] == "begin"]
job.check(len(truth) == RANKS, f"{len(truth)} faults were injected, not {RANKS}: {j.stderr()}")
gap = j.longest_gap_s()
first = {}
for f in j.opened():
    if f["kind"] == "d_state":
        first.setdefault(f["ranks"][0], f)
into = {rank: (f["t_ns"] - f["since_ns"]) / 1e9 for rank, f in first.items()}
print(f"{len(first)} ranks found {min(into.values()):.2f} to {max(into.values()):.2f} s into the wait; longest gap "
      f"{gap} s")
job.check(sorted(first) == list(range(RANKS)), f"d_state of {sorted(first)}: {j.stderr()}")
job.check(gap < (GAP_S if job.LONG else 4 * GAP_S), f"the collector did not look for {gap} s")
job.check(max(into.values()) <= FOUND_S, f"found late: {into}")
unheld = [f for f in j.opened() if f["kind"] == "d_state" and not f["evidence"].get("mmap_lock_held")]
job.check(not unheld, f"D states with the lock held, reported without: {unheld}")
wrong = [f for f in j.roots() if f["kind"] != "d_state"]
job.check(not wrong, f"findings that nobody injected: {wrong}")
# who is blocked, or waits for one who is: consequences may name others, but only of this
odd = [f for f in j.opened() if f["kind"] not in ("d_state", "hang", "observation", "slow_step")]
job.check(not odd, f"findings of another kind: {odd}")
job.check(code == 1, f"exit code {code}")
j.check_replay()
