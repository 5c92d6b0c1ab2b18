# SPDX-License-Identifier: Apache-2.0
"""--rotate and a full disk. Each recording and timeline of a session that begins a new one every second can be read
alone, together they hold every operation, and the newest names the rank that hangs. After a full disk the outputs come
back: what is missing is said, what was open is said again."""
import glob
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job

job.need_root()
rng, _ = job.seed()


def replay(path, *args):
    out = subprocess.run([job.RANKTRACE, "replay", *args, path], capture_output=True, text=True)
    job.check(out.returncode in (0, 1) and "torn" not in out.stderr, f"{path}: {out.stderr}")
    with open(f"{path}.out", "w") as f:
        f.write(out.stdout)
    return job.lines(f"{path}.out")


def wait_said(j, what, timeout=20):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if re.search(what, j.stderr()):
            return
        time.sleep(0.1)
    job.fail(f"'{what}' is not said within {timeout} s: {j.stderr()}")


def rotated():
    rank, number = rng.randrange(4), rng.randrange(1 << 30)
    j = job.Job(["--ranks", 4, "--steps", 1000, "--step-ms", 40, "--seed", number, "--fault",
                 f"hang:rank={rank},step={rng.randrange(70, 90)}"], ["--rotate", "1s", "--keep", 50], name="rotate")
    live = j.wait_finding(60, kind="hang", phase="open")
    job.check(live and live["ranks"] == [rank], f"rank {rank} was not named: {j.findings}\n{j.stderr()}")
    time.sleep(2.5)  # the newest file begins when the rank hangs already
    job.check(j.stop() == 1, f"exit code is not 1: {j.stderr()}")
    files = glob.glob(j.rtr + ".[0-9]*")
    job.check(len(files) >= 5 and not glob.glob(f"{j.dir}/*.part*"), f"{os.listdir(j.dir)}")
    truth = {job.op_key(o) for o in job.lines(j.ops_log)}
    seen = set()
    for path in [j.rtr] + files:
        ops = {job.op_key(o) for o in replay(path, "-q", "--ops")}
        job.check(ops <= truth, f"{path}: {len(ops)} operations, of them invented: {list(ops - truth)[:3]}")
        seen |= ops
    job.check(seen == truth, f"missing in all of {len(files)} files: {list(truth - seen)[:3]}")
    again = [f for f in replay(j.rtr, "-q", "--json") if f["phase"] == "open" and f["kind"] == "hang"]
    job.check(len(again) == 1 and all(again[0][k] == live[k] for k in ("class", "ranks", "comm", "op", "seq")),
              f"live {live}\nthe newest file says {again}")
    for path in [j.trace, j.trace + ".1", j.trace + ".3"]:
        out = subprocess.run(["python3", "-B", "tools/check_pftrace.py", path], capture_output=True, text=True)
        job.check(out.returncode == 0, f"{path}: {out.stdout}{out.stderr}")
    print(f"  {len(files) + 1} recordings hold {len(seen)} operations")


def filled(where):
    rank = rng.randrange(4)
    j = job.Job(["--ranks", 4, "--steps", 1000, "--step-ms", 40, "--seed", rng.randrange(1 << 30), "--fault",
                 f"hang:rank={rank},step=110"], ["-o", f"{where}/a.rtr", "-o", f"{where}/a.pftrace", "-o",
                                                f"{where}/found.jsonl"], name="full")
    j.wait_begun(2.0)
    job.disk_fill(where)
    wait_said(j, r"a\.rtr: No space left on device; what comes is counted and tried again")
    live = j.wait_finding(60, kind="hang", phase="open")
    job.check(live and live["ranks"] == [rank], f"rank {rank} was not named: {j.findings}\n{j.stderr()}")
    wait_said(j, r"found\.jsonl: No space left on device")
    job.check(not glob.glob(f"{where}/*.part*") and not os.path.exists(f"{where}/a.rtr.1"), f"{os.listdir(where)}")
    os.unlink(f"{where}/filler")
    for name, what in (("a.rtr", "records"), ("a.pftrace", "records"), ("found.jsonl", "findings")):
        wait_said(j, rf"{name}: written again; [1-9]\d* {what} are missing", 40)
    time.sleep(1)
    job.check(j.stop() == 4, f"exit code is not 4: {j.stderr()}")
    told = j.stderr()
    job.check(len(re.findall(r"a\.rtr: No space left", told)) == 1, f"said more than once: {told}")
    print("  " + "\n  ".join(re.findall(r".*written again.*", told)))
    before, after = len(replay(f"{where}/a.rtr.1", "-q", "--ops")), replay(f"{where}/a.rtr", "-q", "--json")
    job.check(before and [f["ranks"] for f in after if f["kind"] == "hang" and f["phase"] == "open"] == [[rank]],
              f"{before} operations; after the disk was full: {after}")
    job.check(any(f["id"] == live["id"] for f in job.lines(f"{where}/found.jsonl")), "the hang is not in found.jsonl")
    j.check_replay()


rotated()
where = tempfile.mkdtemp(prefix="ranktrace-full-")
job.dirs.append(where)
if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", where], capture_output=True).returncode:
    print("  full disk: not tried, no tmpfs can be mounted")
    sys.exit(0)
try:
    filled(where)
finally:
    subprocess.run(["umount", "-l", where])
