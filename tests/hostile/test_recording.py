# SPDX-License-Identifier: Apache-2.0
"""Recordings that nobody wrote: each kind of record with a number in it that cannot be, once a run. Root's replay and
its outputs do not crash, hang or take memory for ranks that no communicator has; impossible records are counted. The
job and the daemon of the host beside it do not notice."""
import glob
import os
import re
import resource
import struct
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(1, sys.path[0] + "/../aid")
import hostile
import job

ROOM = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VALUES = (200_000_000, -1, -(1 << 31), (1 << 31) - 1, 1 << 20, 4)
TRIALS = 400 if job.LONG else 10 if job.SANITIZED else 60
MEMORY = 1 << 30
# Where a rank, a size or a peer stands in a body: (tracer, kind) -> offsets behind the header.
RANKS = {(0, 3): (16, 20, 24), (2, 1): (40, 44), (2, 2): (32, 36), (2, 3): (8, 12), (2, 4): (24, 28)}


def chunks(path):
    with open(path, "rb") as f:
        data = f.read()
    at = 16
    while at + 24 <= len(data):
        magic, raw, packed, n, crc, rest = struct.unpack_from("<6I", data, at)
        yield magic, n, rest, bytearray(zlib.decompress(data[at + 24:at + 24 + packed]))
        at += 24 + packed


def records(chunk):
    at = 0
    while at + 24 <= len(chunk):
        size, tracer, kind = struct.unpack_from("<HBB", chunk, at)
        yield at, size, tracer, kind
        at += size


def write(path, head, all_chunks):
    with open(path, "wb") as f:
        f.write(head)
        for magic, n, rest, chunk in all_chunks:
            packed = zlib.compress(bytes(chunk), 1)
            f.write(struct.pack("<6I", magic, len(chunk), len(packed), n, zlib.crc32(packed), rest) + packed)
    os.chown(path, hostile.NOBODY, hostile.NOBODY)


def limits():
    if not job.SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def replay(path, *args, what=""):
    out = subprocess.run([job.RANKTRACE, "replay", *args, path], capture_output=True, timeout=60, preexec_fn=limits)
    err = out.stderr.decode(errors="replace")
    job.check(out.returncode in (0, 1), f"{what} {args}: exit {out.returncode}: {err[-600:]}")
    refused = re.search(r"(\d+) records ", err)
    return int(refused.group(1)) if refused else 0


def damaged(rng, source, to):
    """One record of a kind drawn, one of its words."""
    with open(source, "rb") as f:
        head = f.read(16)
    all_chunks = list(chunks(source))
    kinds = {}
    for c, (_, _, _, chunk) in enumerate(all_chunks):
        for at, size, tracer, kind in records(chunk):
            kinds.setdefault((tracer, kind), []).append((c, at, size))
    which = rng.choice(sorted(kinds))
    c, at, size = rng.choice(kinds[which])
    words = [o for o in range(0, size - 24 - 3, 4)]
    if not words:
        return None
    offset = rng.choice(RANKS.get(which, words) if rng.random() < 0.5 else words)
    if offset + 4 > size - 24:
        return None
    value = rng.choice(VALUES)
    struct.pack_into("<i", all_chunks[c][3], at + 24 + offset, value)
    write(to, head, all_chunks)
    return which, offset, value


def ranks_refused(source, to):
    """Each kind that names a rank, each of its places: refused, and counted."""
    with open(source, "rb") as f:
        head = f.read(16)
    n = 0
    for which, offsets in RANKS.items():
        for offset in offsets:
            all_chunks = list(chunks(source))
            found = [(chunk, at) for _, _, _, chunk in all_chunks for at, _, tracer, kind in records(chunk)
                     if (tracer, kind) == which]
            if not found:
                continue
            chunk, at = found[0]
            struct.pack_into("<i", chunk, at + 24 + offset, 200_000_000)
            write(to, head, all_chunks)
            job.check(replay(to, what=which) == 1, f"{which}: a rank of 200,000,000 at {offset} is not refused")
            n += 1
    job.check(n >= 8, f"{n} places: this test would prove little")
    print(f"  {n} places of a rank or a size: each refused and counted")


def main():
    job.need_root()
    rng, _ = job.seed()
    victim = hostile.Victim(rng, steps=1500 if job.LONG else 700)
    victim.wait_begun()
    daemon = hostile.Daemon().wait()
    path = tempfile.mkdtemp(prefix="ranktrace-recording-")
    job.dirs.append(path)
    sources = sorted(glob.glob(f"{ROOM}/replay/*.rtr"), key=os.path.getsize)
    ranks_refused(f"{ROOM}/replay/demo.rtr", f"{path}/x.rtr")
    for _ in range(TRIALS):
        source = rng.choice(sources)
        what = damaged(rng, source, f"{path}/x.rtr")
        if what:
            try:
                replay(f"{path}/x.rtr", *rng.choice([("--json",), ("--ops",), ("-o", f"{path}/x.pftrace"), ()]),
                       what=f"{source} with {what}")
            except subprocess.TimeoutExpired:
                job.fail(f"{source} with {what}: replay does not end")
    job.check(victim.process.poll() is None, "the job was over before: this test would prove nothing")
    print(f"  {TRIALS} recordings with a number that cannot be: none crashes")
    victim.end()
    daemon.stop()
    hostile.check_no_finding(daemon, victim.pids())
    hostile.check_gap(daemon)


main()
