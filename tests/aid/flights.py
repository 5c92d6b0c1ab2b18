# SPDX-License-Identifier: Apache-2.0
"""What a dump of the flight recorder has to be, held against the session's own recording."""
import glob
import json
import os
import re
import subprocess
import tempfile
import time

import job
import rtr

SUFFIXES = (".rtr", ".pftrace", ".jsonl")
LIVE = ("kind", "class", "ranks", "pids", "comm", "op", "seq", "since_ns")


def own_places(name):
    """A directory for dumps, and one where sessions are found: no other session is met, none meets ours."""
    root = tempfile.mkdtemp(prefix=f"ranktrace-{name}-")
    job.dirs.append(root)
    os.environ["RANKTRACE_RUN_DIR"] = f"{root}/run"
    return f"{root}/dumps"


def bases(where):
    """Dumps there, oldest first, as paths without a suffix. Each is a whole set; nothing else lies there."""
    files = sorted(os.listdir(where)) if os.path.isdir(where) else []
    found = sorted({os.path.splitext(f)[0] for f in files if not f.startswith(".flight-")})
    for b in found:
        job.check(re.fullmatch(r"ranktrace-[^-/]+-\d{8}-\d{6}-[a-z_]+(-\d+)?", b), f"strange name {b}")
    return [os.path.join(where, b) for b in sorted(found,
                                                   key=lambda b: os.path.getmtime(glob.escape(f"{where}/{b}.rtr"))
                                                   if os.path.exists(f"{where}/{b}.rtr") else 0)]


def wait_base(where, j, wanted, timeout=120):
    """The first whole set that is wanted: the recording gets its name last."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        for rtr_path in glob.glob(f"{glob.escape(where)}/ranktrace-*.rtr"):
            if wanted(rtr_path[:-len(".rtr")]):
                return rtr_path[:-len(".rtr")]
        time.sleep(0.1)
    job.fail(f"no such dump in {where} within {timeout} s: {os.path.isdir(where) and os.listdir(where)}\n{j.stderr()}")


def wait_finding(where, j, number):
    """The set that was written when this finding was open."""
    return wait_base(where, j, lambda base: any(f["id"] == number for f in job.lines(base + ".jsonl")))


def replay(base, *args):
    out = subprocess.run([job.RANKTRACE, "replay", "-q", *args, base + ".rtr"], capture_output=True, text=True)
    job.check(out.returncode in (0, 1), f"replay of {base} failed: {out.stderr}")
    return [json.loads(line) for line in out.stdout.splitlines()]


def check_timeline(base):
    out = subprocess.run(["python3", "-B", "tools/check_pftrace.py", base + ".pftrace"], capture_output=True, text=True)
    job.check(out.returncode == 0, f"{base}.pftrace: {out.stdout}{out.stderr}")
    return out.stdout.strip().rsplit("/", 1)[-1]


def window(base):
    """Times of the first and the last record that came from the kernel: all before the first is snapshot. Sums of time
    in storage are the collector's, and the newest before the window is kept."""
    times = [ts for tracer, kind, _, ts, _ in rtr.records(base + ".rtr")
             if tracer != rtr.COLLECTOR and (tracer, kind) != (rtr.SCHED, rtr.SCHED_STORAGE)]
    return min(times), max(times)


def key(o):
    return job.op_key(o) + (o["t_ns"],)


def check_ops(j, base):
    """The operations of the window are those of the session, numbers, times and ends; none is missing."""
    whole, part = {key(o): o for o in j.replay("--ops")}, replay(base, "--ops")
    begin, end = window(base)
    for o in part:
        full = whole.get(key(o))
        job.check(full, f"in the dump and not in the session: {o}")
        if o["end_ns"] is not None:  # what a communicator is for takes longer to see than a window may last
            known = {k: v for k, v in full.items() if k != "parallelism" or k in o}
            job.check(o == known, f"in the dump {o}, in the session {full}")
    have = {key(o) for o in part}
    due = [o for o in whole.values() if begin <= o["t_ns"] <= end - 1e8]
    missing = [o for o in due if key(o) not in have]
    job.check(due and not missing, f"{len(missing)} of {len(due)} operations of the window are missing: {missing[:3]}")
    return begin, len(due), min(o["t_ns"] for o in whole.values())
