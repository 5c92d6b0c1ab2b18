# SPDX-License-Identifier: Apache-2.0
# runs alone: the phases of two ranks are compared with the ranks' own clocks, to the millisecond
"""Real PyTorch without a GPU: DDP over gloo, two ranks, a DataLoader with and without workers. Every phase of every
step from the second on is as long as the script's own stamps say, within 1 ms + 1 %, also where ranktrace comes later.
Where the thread lost its CPU between stamp and mark, the two differ by that (held_against.Comparison). Collections of
garbage, the interpreter's own and the script's, are a phase of their own. Hits are few."""
import collections
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import held_against
import rtr

sys.path.insert(1, sys.path[0] + "/../../tools")
import check_pftrace

PYTHON = "/usr/bin/python3"  # Debian's, which has python3-torch
HERE = os.path.dirname(os.path.abspath(__file__))
RANKS, STEPS = 2, 50
HITS_MOST = 30  # of a step and rank, as the issue has it, also of one that accumulates four micro-batches
WIRE_TORCH, TORCH_MARK = 8, 1
BEGIN, END, BACKWARD, DDP_FORWARD, OPERATOR, UPDATE = 1, 2, 3, 5, 8, 9
ACCUMULATED = 4

job.need_root()
os.setpriority(os.PRIO_PROCESS, 0, -15)  # of the tracers, too: as urgent as the ranks, which do not leave them waiting
rng, seed = job.seed()
if subprocess.run([PYTHON, "-c", "import importlib.util as u, sys; sys.exit(not u.find_spec('torch'))"]).returncode:
    job.skip("no PyTorch here: apt-get install python3-torch")


def ranks_start(folder, workers, steps, ranges=1):
    env = dict(os.environ, OMP_NUM_THREADS="1", WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
               MASTER_PORT=str(rng.randrange(20000, 32000)), PYTHONDONTWRITEBYTECODE="1")
    return [[PYTHON, f"{HERE}/ddp_gloo.py", f"{folder}/{rank}.log", str(steps), str(workers), str(seed), str(ranges)]
            for rank in range(RANKS)], env


def under_record(folder, workers, steps, ranges=1, options=()):
    """ranktrace starts the job."""
    argvs, env = ranks_start(folder, workers, steps, ranges)
    shell = "".join(f"RANK={r} LOCAL_RANK={r} {' '.join(argv)} & " for r, argv in enumerate(argvs)) + "wait"
    argv = [job.RANKTRACE, "record", "-v", *options, "-o", f"{folder}/f.rtr", "-o", f"{folder}/f.pftrace", "--", "sh",
            "-c", shell]
    out = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120)
    job.check(out.returncode == 0, f"record ended with {out.returncode}: {out.stderr}")
    return out.stderr


def attached_later(folder, workers, steps):
    """The job runs already."""
    argvs, env = ranks_start(folder, workers, steps)
    ranks = [subprocess.Popen(argv, env=dict(env, RANK=str(r), LOCAL_RANK=str(r))) for r, argv in enumerate(argvs)]
    try:
        while not all(job.lines(f"{folder}/{r}.log") for r in range(RANKS)):
            job.check(all(p.poll() is None for p in ranks), "a rank ended before its first step")
            time.sleep(0.02)
        out = subprocess.run([job.RANKTRACE, "ps", "-v", "--json"], capture_output=True, text=True)
        seen = {p["pid"]: p for p in map(json.loads, out.stdout.splitlines())}
        job.check(all(seen.get(p.pid, {}).get("rank") == r for r, p in enumerate(ranks)),
                  f"ps does not have the ranks of a job without NCCL: {out.stdout}")
        with open(f"{folder}/stderr", "w") as err:
            tracer = subprocess.Popen([job.RANKTRACE, "record", "-v", "-o", f"{folder}/f.rtr",
                                       *(f"--pid={p.pid}" for p in ranks)], stderr=err)
        for p in ranks:
            job.check(p.wait(120) == 0, "a rank failed")
        tracer.wait(60)
    finally:
        for p in ranks:
            p.kill()
    with open(f"{folder}/stderr") as f:
        return f.read()


def replayed(folder):
    out = subprocess.run([job.RANKTRACE, "replay", "-q", "--steps", f"{folder}/f.rtr"], capture_output=True, text=True)
    job.check(out.returncode in (0, 1), out.stderr)
    return [line for line in map(json.loads, out.stdout.splitlines()) if "step" in line]


def rank_compare(compared, truth, steps, from_start):
    pairs = held_against.steps_pair(truth, steps, from_start)
    for t, s in pairs:
        job.check((t["kind"] == "training") == (s["backwards"] > 0), f"{t} is not {s}")
        job.check(s["forward_by"] == "mark" and s["backward_end"] == "return", f"seen by guesses: {s}")
    phases_add(compared, pairs)


def phases_add(compared, pairs):
    compared.add(pairs, lambda t, phase: t["phases"].get(phase, 0), lambda t, phase: t["preempted"].get(phase, False))


def hits_per_step(stderr, n_steps):
    line = next(line for line in stderr.splitlines() if " probe hits of " in line)
    return int(line.split()[1]) / n_steps


def marks_of(folder):
    """(time, what) of each of PyTorch's marks, by process: a hit each."""
    marks = collections.defaultdict(list)
    for tracer, kind, pid, _, ts, body in rtr.whole_records(f"{folder}/f.rtr"):
        if (tracer, kind) == (WIRE_TORCH, TORCH_MARK):
            marks[pid].append((ts, body[0]))
    return marks


def accumulated_check(name, folder, seen):
    """Hits of steps that accumulate, once what stands in for ranges is removed, as these are seen."""
    for pid, marks in marks_of(folder).items():
        gone_ns = max((ts for ts, what in marks if what in (DDP_FORWARD, OPERATOR, UPDATE)), default=0)
        steps = [s for s in seen if s["pid"] == pid and s["backwards"] == ACCUMULATED and s["begin_ns"] > gone_ns]
        job.check(steps, f"{name}: what stands in for ranges is probed to the end")
        hits = [sum(s["begin_ns"] <= ts < s["end_ns"] for ts, _ in marks) for s in steps]
        print(f"{name}: {max(hits)} hits in a step of {ACCUMULATED} micro-batches, {len(hits)} steps", flush=True)
        job.check(max(hits) <= HITS_MOST, f"{name}: hits of steps: {hits}")


def case(name, run, workers, steps, from_start):
    folder = tempfile.mkdtemp(prefix=f"ranktrace-torch-{name}-")
    job.dirs.append(folder)
    compared, total = held_against.Comparison(name), 0
    stderr, seen = run(folder, workers, steps), replayed(folder)
    for rank in range(RANKS):
        truth = job.lines(f"{folder}/{rank}.log")
        rank_compare(compared, truth, [s for s in seen if s["rank"] == rank], from_start)
        total += len(truth)
    hits = hits_per_step(stderr, total)
    job.check(max(s["gc_ns"] or 0 for s in seen) > 1e6, "no collection of the script was seen")
    print(f"{name}: {len(seen)} steps of {total}, {hits:.1f} hits a step", flush=True)
    compared.check()
    job.check(hits <= HITS_MOST, f"{hits} hits a step and rank")
    job.check("not visible" not in stderr, f"all of PyTorch 1.13 is visible: {stderr}")
    if not from_start:
        accumulated_check(name, folder, seen)
    return folder


def timeline_check(folder):
    """The same steps, each on the track of steps with its phases inside: as long as replay says."""
    trace, decoder = check_pftrace.Trace(), check_pftrace.Decoder()
    with open(f"{folder}/f.pftrace", "rb") as f:
        for packet in decoder.packets(f.read()):
            trace.add(packet)
    slices, _, left = check_pftrace.check_slices(trace)
    job.check(not trace.errors and not left, f"the timeline is damaged: {trace.errors} {left}")
    spans = sorted((begin, end) for _, begin, end, name, depth in slices if name.startswith("step ") and depth == 0)
    for _, begin, end, name, depth in slices:
        if name in held_against.PHASES:
            inside = [s for s in spans if s[0] <= begin and end <= s[1]]
            job.check(depth == 1 and inside, f"{name} at {begin} lies in no step")
    steps = replayed(folder)
    job.check(spans == sorted((s["begin_ns"], s["end_ns"]) for s in steps), "steps drawn are not those of replay")
    for phase in held_against.PHASES:
        total = sum(end - begin for _, begin, end, name, _ in slices if name == phase)
        own = sum(s[phase + "_ns"] for s in steps)
        job.check(own <= total <= own + sum(s["gc_ns"] for s in steps), f"{phase} is drawn with another length")


def without_compare(compared, folder, pid, gone_ns):
    """What is seen without ranges, of one rank."""
    seen = [s for s in replayed(folder) if s["pid"] == pid]
    truth = job.lines(f"{folder}/{seen[0]['rank']}.log")
    pairs = held_against.without_ranges_pair([t for t in truth if t["kind"] == "training"], seen, gone_ns)
    pairs = held_against.collections_within(pairs, truth)
    for t, s in pairs:
        job.check(s["forward_by"] == "mark", f"DDP marks its forward: {s}")
        job.check(0 < s["optimizer_ns"] <= t["phases"]["optimizer"] * 1.01 + 1e6, f"optimizer without ranges: {s} {t}")
    phases_add(compared, pairs)


def ranges_go(folder):
    """A script with thousands of ranges a second: they go, and only they. Steps are seen without them, by DDP's marks
    and the optimizer's operators, from the second one on."""
    compared = held_against.Comparison("without ranges")
    under_record(folder, 0, (3 if job.LONG else 2) * STEPS, 400, ("--budget", "1"))
    gone, marks = {}, marks_of(folder)
    for ts, pid, group in held_against.groups_gone(f"{folder}/f.rtr"):
        job.check(group == held_against.RANGES and pid not in gone, f"group {group} went, of what went before: {gone}")
        gone[pid] = ts
    said = subprocess.run([job.RANKTRACE, "replay", "-q", f"{folder}/f.rtr"], capture_output=True, text=True).stdout
    n_said = said.count("ranges and process groups of PyTorch are no longer probed")
    job.check(len(gone) == n_said == RANKS, f"{gone}: {said}")
    for pid, ts in gone.items():
        after = collections.Counter(what for t, what in marks[pid] if t > ts + held_against.GONE_NS)
        job.check(not after[BEGIN] and not after[END], f"ranges are probed still: {after}")
        job.check(after[BACKWARD] > 10 and after[DDP_FORWARD] > 10, f"backward and DDP went, too: {after}")
        without_compare(compared, folder, pid, ts)
    compared.check()
    took = ", ".join(f"{(ts - marks[pid][0][0]) / 1e9:.1f} s" for pid, ts in gone.items())
    print(f"many ranges: gone {took} after the first mark")


timeline_check(case("started", under_record, 0, STEPS, True))
case("workers", under_record, 2, STEPS, True)
case("later", attached_later, 0, (6 if job.LONG else 4) * STEPS, False)
folder = tempfile.mkdtemp(prefix="ranktrace-torch-ranges-")
job.dirs.append(folder)
ranges_go(folder)
