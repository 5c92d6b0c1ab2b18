# SPDX-License-Identifier: Apache-2.0
"""ranktrace ps: who is a rank, host and in-container pid, children, libraries by symbols; record --job takes its word.
The job runs in a pid and mount namespace of its own, as in a container."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job

LOOKS = 8


def ps():
    out = subprocess.run([job.RANKTRACE, "ps", "--json"], capture_output=True, text=True)
    job.check(out.returncode == 0, f"ps: {out.stderr}")
    return [json.loads(line) for line in out.stdout.splitlines()]


def ps_text(*args):
    out = subprocess.run([job.RANKTRACE, "ps", *args], capture_output=True, text=True)
    job.check(out.returncode == 0 and not out.stderr, f"ps: {out.returncode} {out.stderr}")
    return out.stdout.splitlines()


def tracers_of(p):
    return {t for lib in p["libs"] for t in lib["tracers"].split(",")}


def begun(ranks, mine):
    """Each has its libraries and its dataloader."""
    n_children = sum(p["is_child"] for p in mine)
    return len(ranks) == 4 and n_children >= 4 and all({"nccl", "cuda"} <= tracers_of(p) for p in ranks)


def listed(name, ranks):
    """A line a rank: GPU, state, how many steps a second (of 60 ms or more), job; a stopped rank is said to be stopped;
    children and libraries only with -v."""
    os.kill(ranks[2]["pid"], signal.SIGSTOP)
    try:
        while open(f"/proc/{ranks[2]['pid']}/stat").read().rsplit(")", 1)[1].split()[0] != "T":
            time.sleep(0.01)
        stopped = [line.split() for line in ps_text() if name in line]
    finally:
        os.kill(ranks[2]["pid"], signal.SIGCONT)
    job.check([w[0] for w in stopped] == ["0", "1", "2", "3"] and stopped[2][3] == "stopped",
              f"a stopped rank: {stopped}")
    job.check(all(w[:3] == [str(r), str(ranks[r]["pid"]), str(r)] for r, w in enumerate(stopped)),
              f"rank, pid, GPU: {stopped}")
    time.sleep(0.5)
    for _ in range(LOOKS):  # a rank that had no CPU in the second of a look shows no rhythm: '-'
        rows = [line.split() for line in ps_text() if name in line]
        print("\n".join("  " + " ".join(w) for w in rows))
        if all(w[4] != "-" for w in rows):
            break
    job.check(len(rows) == 4 and all(w[3] == "trains" and w[-1] == name for w in rows), f"state: {rows}")
    job.check(all(5 < float(w[4]) < 17 and float(w[5]) > 2 * float(w[4]) for w in rows), f"rates: {rows}")
    text = ps_text("-v")
    job.check(any(line.lstrip().startswith("nccl") for line in text) and any(line.startswith("  +0") for line in text),
              "no libraries or children with -v:\n" + "\n".join(text))


job.need_root()
_, number = job.seed()
name = f"ps-test-{number}"
sim = subprocess.Popen(["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", job.RANKTRACE, "sim", "job",
                        "--ranks",
                        "4", "--steps", "100000", "--step-ms", "60", "--seed", str(number), "--job-id", name,
                        "--quiet"])
try:
    end = time.monotonic() + 30
    while True:
        mine = [p for p in ps() if p["job"] == name]
        ranks = {p["rank"]: p for p in mine if p["rank"] >= 0 and not p["is_child"]}
        if begun(ranks.values(), mine) or time.monotonic() > end:
            break
        time.sleep(0.2)
    print(f"{len(mine)} processes, ranks {sorted(ranks)}, pids {[p['pid'] for p in ranks.values()]}, "
          f"inside {[p['ns_pid'] for p in ranks.values()]}")
    job.check(sorted(ranks) == [0, 1, 2, 3], f"ranks {sorted(ranks)}: {mine}")
    for r, p in ranks.items():
        tracers = tracers_of(p)
        job.check(p["local_rank"] == r and p["world_size"] == 4, f"rank {r}: {p}")
        job.check(p["ns_pid"] < 100 and p["ns_pid"] != p["pid"], f"in-container pid of rank {r}: {p['ns_pid']}")
        job.check({"nccl", "cuda"} <= tracers, f"tracers of rank {r}: {tracers}")
    listed(name, ranks)
    children = [p for p in mine if p["is_child"]]
    job.check({p["rank"] for p in children} == {0, 1, 2, 3}, f"dataloader children: {children}")
    folder = tempfile.mkdtemp(prefix="ranktrace-ps-")
    job.dirs.append(folder)
    rtr = f"{folder}/ps.rtr"
    out = subprocess.run([job.RANKTRACE, "record", "--job", name, "--duration", "3", "-o", rtr], capture_output=True,
                         text=True)
    job.check(out.returncode == 0, f"record --job: {out.returncode} {out.stdout} {out.stderr}")
    seen = [json.loads(line) for line in
            subprocess.run([job.RANKTRACE, "replay", "-q", "--ops", rtr], capture_output=True,
                           text=True).stdout.splitlines()]
    pids = {o["pid"] for o in seen}
    print(f"record --job: {len(seen)} operations of {len(pids)} processes")
    job.check(pids == {p["pid"] for p in ranks.values()}, f"operations of pids {pids}")
finally:
    sim.kill()
    sim.wait()
