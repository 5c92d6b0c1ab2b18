# SPDX-License-Identifier: Apache-2.0
"""A program behind `watch --json |` that does not read: the pipe is full before the first finding. The session goes on
meanwhile, in each tier, and what it found is there, whole, when the program reads again; of one that never does the
session's end says so, and how it ended."""
import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import job
import rtr

RANKS, SMALL = 4, 4096
UNREAD_S, GAP_MOST_S, FOUND_S = 5, 4, 20  # a session polls several times a second


def full_pipe():
    """(end to read, end to write) of a pipe without room; both ends block, as a shell's do."""
    reads, writes = os.pipe()
    fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, SMALL)
    other = os.open(f"/proc/self/fd/{writes}", os.O_WRONLY | os.O_NONBLOCK)
    os.write(other, b"\n" * SMALL)
    os.close(other)
    return reads, writes


def ticks_until(path, begin_ns, seconds):
    """Those of the recording since then, once it has some that are so much later."""
    end = time.monotonic() + FOUND_S
    while time.monotonic() < end:
        ticks = [ts for tracer, kind, _, ts, _ in rtr.records(path)
                 if (tracer, kind) == (rtr.COLLECTOR, rtr.RECORD_TICK) and ts > begin_ns]
        if ticks and ticks[-1] - begin_ns > seconds * 1e9:
            return ticks
        time.sleep(0.3)
    return []


def case(command, rng, reads_again):
    args = ["--ranks", RANKS, "--steps", 1000000, "--step-ms", 20, "--seed", rng.randrange(1 << 30)]
    reads, writes = full_pipe()
    with autopsies.Autopsy(args) as a:
        pids = begun(a)
        path, err = f"{a.dir}/{command}.rtr", open(f"{a.dir}/{command}.err", "w+")
        s = subprocess.Popen([job.RANKTRACE, command, "--json", "-o", path, "--pid", str(a.process.pid)], stdout=writes,
                             stderr=err)
        job.wait_session(s, err.name, lambda line: not line.split(": ")[-1].startswith("0 "))
        time.sleep(2)
        rank = rng.randrange(RANKS)
        os.kill(pids[rank], signal.SIGSTOP)
        stopped_ns = time.monotonic_ns()
        try:
            ticks = ticks_until(path, stopped_ns, UNREAD_S)
            with open(f"/proc/{s.pid}/wchan") as f, open(f"/proc/{s.pid}/syscall") as g:
                where = f"{f.read()} {g.read()}"
            job.check(ticks, f"it stands still behind its reader, in {where}: {open(err.name).read()}")
            gap_s = max(b - a for a, b in zip([stopped_ns, *ticks], ticks)) / 1e9
            job.check(gap_s < GAP_MOST_S, f"it stood still for {gap_s:.1f} s")
            job.check(not fcntl.fcntl(writes, fcntl.F_GETFL) & os.O_NONBLOCK, "others' flags of the pipe changed")
        finally:
            os.kill(pids[rank], signal.SIGCONT)
        os.close(writes)
        text = ended(s, reads, reads_again)
    err.seek(0)
    said = err.read()
    if reads_again:
        found = [json.loads(line) for line in text.split("\n")[:-1] if line]
        job.check(any(f["ranks"] == [rank] and f["cause"] == "stopped" for f in found), f"not there: {found}")
        job.check(s.returncode == 1, f"exit {s.returncode}: {said}")
    else:
        job.check(s.returncode == 4 and "standard output: its reader does not read" in said, f"{s.returncode}: {said}")
    print(f"  {command}, {'read again' if reads_again else 'never read'}: {gap_s:.2f} s between two polls", flush=True)


def begun(a, timeout=60):
    end, pids = time.monotonic() + timeout, {}
    while len(pids) < RANKS:
        job.check(time.monotonic() < end, f"the job does not begin: {pids}")
        time.sleep(0.2)
        pids = {o["rank"]: o["pid"] for o in job.lines(a.ops_log)}
    return pids


def ended(s, reads, reads_again):
    """What it had written, from the pipe's begin."""
    s.send_signal(signal.SIGINT)
    if not reads_again:
        s.wait(30)
    with os.fdopen(reads) as f:
        text = f.read() if reads_again else ""
    s.wait(30)
    return text


def main():
    job.need_root()
    rng = random.Random(job.seed()[1])
    case("watch", rng, True)
    case("record", rng, True)
    case("watch", rng, False)


main()
