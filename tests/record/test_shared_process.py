# SPDX-License-Identifier: Apache-2.0
"""Several ranks in one process, by a thread each and by one thread for all: every operation is reported with its rank
in the communicator and its GPU, as the job's own log has it; the timeline has a track for each GPU, ps names the ranks;
and nothing is said of a healthy job, with probes and without."""
import collections
import json
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import outside
import shared

sys.path.insert(1, "tools")
import check_pftrace

STEPS = 60
LOOKS = 5  # of ps, which looks once: a busy machine does not answer all


def key(o):
    return o["pid"], o["comm"], o["comm_rank"], o["seq"], o["op"], o["count"], o["dtype"]


def tracks_of(path):
    """(name, uuid, parent) of each track."""
    trace, decoder = check_pftrace.Trace(), check_pftrace.Decoder()
    with open(path, "rb") as f:
        for packet in decoder.packets(f.read()):
            trace.add(packet)
    return {uuid: {"name": check_pftrace.track_name(trace, uuid), "uuid": uuid, "parent": t.get("parent_uuid", 0)}
            for uuid, t in trace.tracks.items()}


def check_tracks(path, shape, per_process):
    """A track for each GPU, in the process of its rank; below it its communicators, and the steps of its thread."""
    tracks = tracks_of(path)
    gpus = {t["name"]: t for t in tracks.values() if t["name"].startswith("GPU ")}
    job.check(sorted(gpus) == [f"GPU {n} · rank {n}" for n in range(shared.RANKS)], f"tracks {sorted(gpus)}")
    for rank in range(shared.RANKS):
        own = gpus[f"GPU {rank} · rank {rank}"]
        first = rank // per_process * per_process
        ranks = ", ".join(str(r) for r in range(first, first + per_process))
        process = tracks[own["parent"]]["name"]
        job.check(process.startswith(f"ranks {ranks} · ") and process.endswith(f"GPUs {ranks}"), f"{process!r}")
        below = [t["name"] for t in tracks.values() if t["parent"] == own["uuid"]]
        job.check(("steps" in below) == (shape == "each"), f"below GPU {rank}: {below}")
        comms = [name for name in below if name != "steps"]
        job.check(comms and all(f"(rank {rank} of " in name for name in comms), f"below GPU {rank}: {below}")


def check_clocks(j, truth):
    """Each rank has an iteration clock, of its own thread's calls."""
    clocks = [c for c in j.replay("--steps") if "period_ops" in c]
    per_step = len(truth) // shared.RANKS // STEPS
    job.check([(c["rank"], c["gpu"]) for c in clocks] == [(r, r) for r in range(shared.RANKS)], f"clocks {clocks}")
    job.check(all(c["period_ops"] == per_step for c in clocks), f"{per_step} operations a step, clocks {clocks}")


def counted(rng, shape, per_process, *more):
    j = job.Job(shared.arguments(rng, shape, per_process, "--steps", STEPS, "--step-ms", 40, *more), job.NO_BUDGET)
    code = j.end()
    job.check(code == 0, f"exit code {code}: {j.findings}\n{j.stderr()}")
    truth, seen = job.lines(j.ops_log), j.replay("--ops")
    a, b = collections.Counter(map(key, truth)), collections.Counter(map(key, seen))
    job.check(a == b, f"missing {list((a - b).elements())[:3]}, extra {list((b - a).elements())[:3]}")
    gpus = {(o["pid"], o["comm"], o["comm_rank"]): o["gpu"] for o in seen}
    ranks = {(o["pid"], o["comm"], o["comm_rank"]): o["rank"] for o in truth}
    job.check(gpus == ranks, f"GPUs {gpus}, ranks {ranks}")
    job.check(len({pid for pid, _, _ in gpus}) == shared.RANKS // per_process, f"processes {gpus}")
    job.check(not j.findings, f"findings on a healthy job: {j.findings}")
    j.check_replay()
    if not more:
        check_tracks(j.trace, shape, per_process)
    if shape == "each":
        check_clocks(j, truth)
    print(f"  {shape}, {per_process} ranks a process: {len(seen)} operations, each with its rank and GPU")


def check_ps(a):
    pids = {o["pid"] for o in job.lines(a.ops_log)}
    for _ in range(LOOKS):
        out = subprocess.run([job.RANKTRACE, "ps", "--json"], capture_output=True, text=True)
        rows = [p for p in map(json.loads, out.stdout.splitlines()) if p["pid"] in pids]
        if all(p["ranks"] for p in rows):
            break
    job.check(sorted((p["ranks"], p["gpus"]) for p in rows) == [([0, 1], "0,1"), ([2, 3], "2,3")], f"ps: {rows}")
    for _ in range(LOOKS):
        text = subprocess.run([job.RANKTRACE, "ps"], capture_output=True, text=True).stdout
        if all(any(line.split()[:3] == [ranks, str(p["pid"]), ranks] for line in text.splitlines())
               for p in rows for ranks in [p["gpus"]]):
            return
    job.fail(f"ps: {text}")


def watched(rng, shape):
    with shared.begun(rng, shape) as a:
        s = outside.Session(a, "watch")
        begin = time.monotonic()
        if shape == "each":
            check_ps(a)
        time.sleep(max(0, 8 - (time.monotonic() - begin)))
        code = s.stop()
        job.check(code == 0 and not s.findings, f"exit {code}: {s.findings}")
        print(f"  {shape}: watch is silent")


def main():
    job.need_root()
    rng, _ = job.seed()
    counted(rng, "each", 2)
    counted(rng, "one", 4)
    counted(rng, "one", 2, "--layout", "tp=2,pp=2", "--extra-ops")
    for shape in shared.SHAPES:
        watched(rng, shape)


main()
