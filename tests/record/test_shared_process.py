# SPDX-License-Identifier: Apache-2.0
"""Several ranks in one process, a thread and a GPU each: every operation is reported with its rank in the communicator
and its GPU, as the job's own log has it; and nothing is said of a healthy job, with probes and without."""
import collections
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import job
import outside


def key(o):
    return o["pid"], o["comm"], o["comm_rank"], o["seq"], o["op"], o["count"], o["dtype"]


def counted(rng, per_process):
    j = job.Job(["--ranks", 4, "--steps", 60, "--step-ms", 40, "--ranks-per-process", per_process, "--seed",
                 rng.randrange(1 << 30)])
    code = j.end()
    job.check(code == 0, f"exit code {code}: {j.findings}\n{j.stderr()}")
    truth, seen = job.lines(j.ops_log), j.replay("--ops")
    a, b = collections.Counter(map(key, truth)), collections.Counter(map(key, seen))
    job.check(a == b, f"missing {list((a - b).elements())[:3]}, extra {list((b - a).elements())[:3]}")
    gpus = {(o["pid"], o["comm_rank"]): o["gpu"] for o in seen}
    job.check(len(gpus) == 4 and all(gpu == rank for (_, rank), gpu in gpus.items()), f"GPUs {gpus}")
    job.check(len({pid for pid, _ in gpus}) == 4 // per_process, f"processes {gpus}")
    job.check(not j.findings, f"findings on a healthy job: {j.findings}")
    j.check_replay()
    print(f"  {per_process} ranks a process: {len(seen)} operations, each with its rank and GPU")


def watched(rng):
    with autopsies.Autopsy(["--ranks", 4, "--steps", 100000, "--step-ms", 50, "--ranks-per-process", 2,
                            "--seed", rng.randrange(1 << 30)]) as a:
        while len({o["comm_rank"] for o in job.lines(a.ops_log)}) < 4:
            time.sleep(0.1)
        s = outside.Session(a, "watch")
        time.sleep(8)
        code = s.stop()
        job.check(code == 0 and not s.findings, f"exit {code}: {s.findings}")
        print("  2 ranks a process: watch is silent")


def hung(rng, command):
    """The rank whose thread sleeps is named: by process, GPU and rank; with probes by its thread, too."""
    rank, step = rng.randrange(4), rng.randrange(170, 190)
    with autopsies.Autopsy(["--ranks", 4, "--steps", 100000, "--step-ms", 50, "--ranks-per-process", 2, "--seed",
                            rng.randrange(1 << 30),
                            "--fault", f"hang:rank={rank},step={step},sec=60"]) as a:
        while len({o["comm_rank"] for o in job.lines(a.ops_log)}) < 4:
            time.sleep(0.1)
        s = outside.Session(a, command, *(["--no-raise"] if command == "watch" else []))
        f = s.wait(60, kind="hang", phase="open")
        outside.check_rank(s, f, rank, "missing_enter")
        truth = a.wait_fault("hang")
        job.check(f["pids"] == [truth["pid"]] and (truth["comm"], truth["seq"]) in outside.places(f), f"{f}, {truth}")
        job.check(command == "watch" or (f["comm"], f["seq"]) == (truth["comm"], truth["seq"]), f"{f}, {truth}")
        e = f["evidence"]
        job.check(e["gpu"] == rank and e["comm_rank"] == rank and f"GPU {rank}, rank {rank} of 4" in e["member"],
                  f"evidence {e}")
        job.check(sorted(e["waiting_ranks"].split(",")) == sorted({"0", "1", "2", "3"} - {str(rank)}), f"evidence {e}")
        if command == "record":  # a call shows whose thread it is
            job.check(e["thread"] == f"gpu_{rank}" and e["tid"] != f["pids"][0], f"thread {e}")
        s.stop()
        job.check(not s.others(rank), f"others are named: {s.others(rank)}")
        print(f"  {command}: {e['member']}, {e.get('thread', 'no thread')} {e.get('tid', '')}")


def main():
    job.need_root()
    rng, _ = job.seed()
    for per_process in (2, 4):
        counted(rng, per_process)
    watched(rng)
    for command in ("watch", "record"):
        hung(rng, command)


main()
