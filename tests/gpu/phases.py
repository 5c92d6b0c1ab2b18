# SPDX-License-Identifier: Apache-2.0
"""On a machine with NVIDIA GPUs and PyTorch: are the phases of steps, as `ranktrace record` saw them when it came in
the middle of a job, as long as the job's own stamps say (phasejob.py)? Arguments: ddp, compile, fsdp2 (default: all;
each takes SECONDS (40) and its start), again-fsdp2 and so on (what lies in OUT_DIR is judged again). Steps whose ranges
of PyTorch the budget took are known by operators (decision 1010), have borders of their own, and are lines of their own
here. Prints one JSON line a mode and phase: how many values, how many within 1 ms + 1 %, how many of the others lost
their CPU between stamp and mark, and the errors, in ms; then the steps that are missing (apart: where PyTorch's ranges
came or went) and the hits a step and rank. `checkpoint` is what is in no phase of a step with a checkpoint in it,
`other` of the rest. Recordings and the jobs' logs stay in OUT_DIR. Exit status: 1 where more than EXCEPTIONS_MOST of a
phase differ, or a step is missing."""
import collections
import json
import os
import random
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [f"{HERE}/../torch", f"{HERE}/../aid"]
import gpujob
import job
import held_against
import rtr
from gpujob import OUT, RANKTRACE

RANKS = int(os.environ.get("RANKS", max(2, gpujob.GPUS)))
SECONDS = float(os.environ.get("SECONDS", 40))
START_MOST_S = 300  # the first steps compile
ATTACH_MOST_S = 60
STEPS_BEFORE = 12  # of each rank, before the session comes
EXCEPTIONS_MOST = 0.01
WIRE_TORCH = 8


def own_steps(prefix, rank):
    path = f"{prefix}.steps.{rank}"
    return job.lines(path) if os.path.exists(path) else []


class Ranks:
    def __init__(self, mode):
        self.mode, self.prefix = mode, f"{OUT}/phases-{mode}"
        for name in os.listdir(OUT):
            if name.startswith(f"phases-{mode}."):
                os.unlink(f"{OUT}/{name}")
        env = dict(os.environ, OMP_NUM_THREADS="1", WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(RANKS),
                   MASTER_ADDR="127.0.0.1", MASTER_PORT=str(random.randrange(20000, 32000)))
        argv = [sys.executable, "-B", f"{HERE}/phasejob.py", mode, self.prefix]
        self.processes = [subprocess.Popen(argv, env=dict(env, RANK=str(r), LOCAL_RANK=str(r)),
                                           stdout=open(f"{self.prefix}.out.{r}", "w"), stderr=subprocess.STDOUT)
                          for r in range(RANKS)]

    def steps_wait(self):
        """Until each rank has made some."""
        end = time.monotonic() + START_MOST_S
        while any(len(own_steps(self.prefix, r)) < STEPS_BEFORE for r in range(RANKS)):
            if time.monotonic() > end or any(p.poll() is not None for p in self.processes):
                raise SystemExit("the job made no steps: " + open(f"{self.prefix}.out.0").read()[-2000:])
            time.sleep(0.5)

    def stop(self):
        open(f"{self.prefix}.stop", "w").close()
        for p in self.processes:
            p.wait(60)

    def kill(self):
        for p in self.processes:
            p.kill()


def record(mode):
    """It comes when the job runs, and goes with it."""
    ranks = Ranks(mode)
    try:
        ranks.steps_wait()
        with open(f"{ranks.prefix}.err", "w") as err:
            tracer = subprocess.Popen([RANKTRACE, "record", "-v", "-o", f"{ranks.prefix}.rtr",
                                       *(f"--pid={p.pid}" for p in ranks.processes)], stderr=err, stdout=err)
        job.wait_session(tracer, f"{ranks.prefix}.err", job.has_probes, ATTACH_MOST_S)
        time.sleep(SECONDS)
        ranks.stop()
        tracer.wait(60)
    finally:
        ranks.kill()


def replayed(path):
    out = subprocess.run([RANKTRACE, "replay", "-q", "--steps", path], capture_output=True, text=True)
    return [line for line in map(json.loads, out.stdout.splitlines()) if "step" in line]


def ends_set(truth):
    """A step of ours ends where the next batch is asked for."""
    for step, after in zip(truth, truth[1:]):
        step["end_ns"] = after["begin_ns"]
    return truth[:-1]


def rest_ns(step):
    return step["end_ns"] - step["begin_ns"] - sum(step["phases"].get(phase, 0) for phase in held_against.PHASES)


def operators_pair(truth, seen, known):
    """Pairs of those known by operators: each ends in one of the job's, with its optimizer; but the job's steps that
    ranges showed (known, by id())."""
    pairs = []
    for t in (t for t in truth[:-1] if id(t) not in known):
        ends = [s for s in seen if t["begin_ns"] < s["end_ns"] <= t["end_ns"]]
        if len(ends) == 1:
            pairs.append((t, ends[0]))
    return pairs


def values_of(pairs, suffix):
    for phase, *rest in held_against.phases_compared(pairs, lambda t, phase: t["phases"].get(phase, 0),
                                                     lambda t, phase: t["preempted"].get(phase, False)):
        yield (phase + suffix, *rest)


def rank_compared(truth, seen):
    """(phase, seen, own, excused, step, the job's) of one rank; and the steps that were not seen."""
    by_ranges = [s for s in seen if s["phases_by"] != "operators"]
    pairs, _ = held_against.steps_match(truth, by_ranges) if by_ranges else ([], [])
    pairs = [(t, s) for t, s in pairs if t is not truth[-1]]
    ends_set(truth)
    others = operators_pair(truth, [s for s in seen if s["phases_by"] == "operators"],
                            {id(t) for t, _ in pairs})
    paired = {id(t) for t, _ in pairs + others}
    first = min((i for i, t in enumerate(truth) if id(t) in paired), default=0)
    missing = [i for i in range(first, len(truth) - 1) if id(truth[i]) not in paired and
               (truth[i]["kind"] == "training" or not others)]
    changed = at_change(truth, missing, {id(t) for t, _ in pairs}, {id(t) for t, _ in others})
    values = list(values_of(held_against.collections_within(pairs, truth), ""))
    values += values_of(held_against.collections_within(others, truth), " by operators")
    for t, s in pairs:
        lost = any(t["preempted"].values())
        values.append(("step", s["end_ns"] - s["begin_ns"], t["end_ns"] - t["begin_ns"], lost, s, t))
        if s["other_ns"] is not None:
            values.append(("checkpoint" if "checkpoint" in t["phases"] else "other", s["other_ns"], rest_ns(t), lost, s,
                           t))
    return values, [i for i in missing if i not in changed], changed


def at_change(truth, missing, by_ranges, by_operators):
    """Of the missing those where the budget took PyTorch's ranges, or gave them back: one or two steps of which some
    marks came and some did not."""
    def nearest(i, by):
        return next((id(truth[n]) for n in range(i, -1 if by < 0 else len(truth), by)
                     if id(truth[n]) in by_ranges | by_operators), None)

    sides = [(i, {nearest(i, -1), nearest(i, 1)}) for i in missing]
    return [i for i, side in sides if side & by_ranges and side & by_operators]


def percentile(values, p):
    return sorted(values)[min(len(values) - 1, int(len(values) * p / 100))]


def differs_say(phase, seen_ns, own_ns, excused, step, truth):
    def ms(ns_of):
        return {key: round(ns / 1e6, 2) for key, ns in ns_of.items() if ns is not None}

    print(f"  {phase} {seen_ns / 1e6:.2f} ms, by the job {own_ns / 1e6:.2f} ms{', preempted' if excused else ''}: rank "
          f"{step['rank']} step {step['step']}, {truth['kind']}, {step['backwards']} backwards; seen "
          f"{ms({p: step[p + '_ns'] for p in held_against.PHASES})}, by the job {ms(truth['phases'])}", flush=True)


def phase_say(mode, phase, values):
    """True where hardly any differs for no reason that is known."""
    errors = [abs(seen - own) / 1e6 for _, seen, own, *_ in values]
    differ = [v for v in values if not held_against.is_near(v[1], v[2])]
    excused = sum(v[3] for v in differ)
    gpujob.say(f"phases-{mode}", phase=phase, n=len(values), within=len(values) - len(differ), preempted=excused,
               own_p50_ms=round(percentile([v[2] for v in values], 50) / 1e6, 3),
               error_p50_ms=round(percentile(errors, 50), 3), error_p99_ms=round(percentile(errors, 99), 3),
               error_max_ms=round(max(errors), 3))
    for v in sorted(differ, key=lambda v: (v[3], -abs(v[1] - v[2])))[:3]:
        differs_say(*v)
    return len(differ) - excused <= EXCEPTIONS_MOST * len(values)


def hits_a_step(mode, err, path, seen):
    """All probe hits, and those that PyTorch's marks cost, of the steps that were seen."""
    found = re.search(r"(\d+) probe hits of ([\d.]+) us", err)
    spans = {pid: (min(s["begin_ns"] for s in seen if s["pid"] == pid), max(s["end_ns"] for s in seen
                                                                           if s["pid"] == pid))
             for pid in {s["pid"] for s in seen}}
    marks = sum(1 for tracer, _, pid, _, ts, _ in rtr.whole_records(path)
                if tracer == WIRE_TORCH and pid in spans and spans[pid][0] <= ts < spans[pid][1])
    return {"torch_hits_a_step": round(marks / len(seen), 1), "hit_us": found and float(found[2]),
            "all_hits_a_step": found and round(int(found[1]) / len(seen), 1)}


def judge(mode):
    prefix = f"{OUT}/phases-{mode}"
    err = open(f"{prefix}.err").read()
    path, by_phase, missing, changed = f"{prefix}.rtr", collections.defaultdict(list), [], []
    seen = replayed(path)
    for rank in range(RANKS):
        values, not_seen, between = rank_compared(own_steps(prefix, rank), [s for s in seen if s["rank"] == rank])
        missing += not_seen
        changed += between
        for v in values:
            by_phase[v[0]].append(v)
    good = [phase_say(mode, phase, values) for phase, values in by_phase.items()]
    said = [line for line in err.splitlines() if re.search(r"not visible|no longer probed|records \(.*lost", line)]
    gpujob.say(f"phases-{mode}", ranks=RANKS, steps_seen=len(seen), missing=len(missing),
               missing_at_change=len(changed),
               evaluations=sum(not s["backwards"] for s in seen),
               phases_by=collections.Counter(s["phases_by"] for s in seen),
               forward_by=collections.Counter(s["forward_by"] for s in seen),
               backward_end=collections.Counter(s["backward_end"] for s in seen),
               **(hits_a_step(mode, err, path, seen) if seen else {}), said=said, err_end=err.splitlines()[-3:])
    return bool(seen) and not missing and all(good)


def main():
    os.makedirs(OUT, exist_ok=True)
    right = True
    for mode in sys.argv[1:] or ("ddp", "compile", "fsdp2"):
        try:
            if not mode.startswith("again-"):
                record(mode)
            right &= judge(mode.removeprefix("again-"))
        except (Exception, SystemExit) as e:
            right = False
            gpujob.say(f"phases-{mode}", error=f"{type(e).__name__}: {e}")
    sys.exit(not right)


main()
