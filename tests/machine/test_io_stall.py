# SPDX-License-Identifier: Apache-2.0
"""A file system freezes under two of three ranks that write to it: one io_stall, with the mount, is the cause of both D
states; the third rank, on another file system, is not named. Thawed, all of it closes."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import frozen_disk
import job

THAW_AT_MOST_S = 60
RANK = """
import sys, time
for path in sys.stdin:
    begin = time.monotonic()
    open(path.strip(), "w").close()
    print(time.monotonic() - begin, flush=True)
"""

job.need_root()
folder = tempfile.mkdtemp(prefix="ranktrace-io-stall-")
job.dirs.append(folder)
mount = f"{folder}/shared"


def rank_start(rank):
    return subprocess.Popen([sys.executable, "-c", RANK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            env=dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="3"))


def write(ranks, path):
    for r in ranks:
        r.stdin.write(f"{path}-{r.pid}\n")
        r.stdin.flush()


def findings():
    with open(f"{folder}/findings") as f:
        return [json.loads(line) for line in f.read().split("\n")[:-1]]


def wait_for(what, is_it, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = [f for f in findings() if is_it(f)]
        if found:
            return found
        time.sleep(0.2)
    with open(f"{folder}/stderr") as f:
        job.fail(f"{what}: not within {seconds} s: {findings()}, {f.read()}")


def checks(ranks):
    write(ranks[:2], f"{mount}/checkpoint")
    write(ranks[2:], f"{folder}/elsewhere")
    stall = wait_for("io_stall", lambda f: f["kind"] == "io_stall")[0]
    blocked = [f for f in findings() if f["kind"] == "d_state" and f["phase"] == "open"]
    e = stall["evidence"]
    print(stall["summary"], flush=True)
    job.check(sorted(stall["ranks"]) == [0, 1] and stall["severity"] == "critical", f"who waits: {stall}")
    job.check(e["mount"].startswith(f"{mount} (ext4 /dev/loop") and e["file"].startswith(f"{mount}/checkpoint"),
              f"for what: {e}")
    job.check(e["syscall"] == "openat" and e["n_blocked"] == 2 and mount in stall["remedy"], f"how: {stall}")
    job.check(mount in stall["summary"], f"the mount is not said: {stall}")
    job.check(sorted(f["ranks"][0] for f in blocked) == [0, 1], f"D states: {blocked}")
    wait_for("consequences", lambda f: f["kind"] == "d_state" and f["caused_by"] == stall["id"])
    disk.thaw()
    wait_for("the end", lambda f: f["id"] == stall["id"] and f["phase"] == "close")
    return [float(r.stdout.readline()) for r in ranks]


def storage_check(took):
    """The time for which each rank was blocked, by its own clock, with the mount: a rank elsewhere has none of it."""
    argv = [job.RANKTRACE, "replay", "--storage", "-q", f"{folder}/f.rtr"]
    out = subprocess.run(argv, capture_output=True, text=True)
    here = {s["rank"]: s for s in map(json.loads, out.stdout.splitlines()) if s["mount"] == mount}
    job.check(sorted(here) == [0, 1], f"who was blocked there: {out.stdout}, {out.stderr}")
    for rank, s in here.items():
        job.check(s["call"] == "open" and s["type"] == "ext4" and s["calls"] == 1, f"how: {s}")
        job.check(s["longest_file"].startswith("checkpoint-"), f"in which file: {s}")
        job.check(0.5 * took[rank] < s["blocked_ns"] / 1e9 < took[rank], f"{took[rank]} s are not as long as {s}")


disk = frozen_disk.Disk(folder, "shared", THAW_AT_MOST_S)
ranks = [rank_start(r) for r in range(3)]
with open(f"{folder}/findings", "w") as out, open(f"{folder}/stderr", "w") as err:
    tracer = subprocess.Popen([job.RANKTRACE, "record", "--json", "--dstate-limit", "2", "-o", f"{folder}/f.rtr",
                               *(f"--pid={r.pid}" for r in ranks)], stdout=out, stderr=err)
try:
    job.wait_session(tracer, f"{folder}/stderr", lambda line: "3 processes" in line)
    disk.freeze()
    took = checks(ranks)
finally:
    disk.let_go()
    for r in ranks:
        r.kill()
    tracer.send_signal(signal.SIGINT)
    tracer.wait(30)
    disk.close()
live = [f for f in findings() if f["phase"] == "open"]
again = subprocess.run([job.RANKTRACE, "replay", "--json", "-q", f"{folder}/f.rtr"], capture_output=True, text=True)
replayed = [f for f in map(json.loads, again.stdout.splitlines()) if f.get("phase") == "open"]
job.check([f["id"] for f in live] == [f["id"] for f in replayed], f"a replay says otherwise: {again.stdout}")
storage_check(took)
