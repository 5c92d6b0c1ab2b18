# SPDX-License-Identifier: Apache-2.0
"""Nobody maps files that are made to cost their reader: symbols whose names lie each on a page of a hole of 2 GB,
tables of millions of symbols, files cut short or damaged. None of it holds up the daemon; what is not inspected is
said once, with the reason; the job beside them is probed and runs as ever. (That no hole becomes memory: unit test
test_target_elf, as other daemons of the host may read the files, too.)"""
import os
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import hostile
import job

SYMBOLS = 500000
PAGE = 4096
SEEN_S = 7        # past the second try of a file that was late
SAID_MOST_S = 120 # one such file is read at a time, for up to 10 s of CPU, and then three times that none

HOLD = """
import mmap, os, struct, sys
SYMBOLS, PAGE, SPARSE, FILES = (int(a) for a in sys.argv[1:5])
def elf(f):
    names_len = SYMBOLS * PAGE if SPARSE else SYMBOLS * 16
    rows_at, names_at = PAGE, PAGE + SYMBOLS * 24 + PAGE
    sections_at = names_at + names_len + PAGE & -8
    os.pwrite(f, struct.pack("<16sHHIQQQIHHHHHH", b"\\x7fELF\\x02\\x01\\x01", 3, 62, 1, 0, 64, sections_at, 0, 64, 56,
                             1, 64, 3, 0), 0)
    os.pwrite(f, struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, PAGE, PAGE, PAGE), 64)
    step = PAGE if SPARSE else 16
    os.pwrite(f, b"".join(struct.pack("<IBBHQQ", i * step + 1, 18, 0, 1, 64, 8) for i in range(SYMBOLS)), rows_at)
    if not SPARSE:
        os.pwrite(f, b"".join(b"\\0nccl%010d\\0" % i for i in range(SYMBOLS)), names_at)
    os.ftruncate(f, sections_at + 3 * 64)
    os.pwrite(f, b"\\0" * 64 + struct.pack("<IIQQQQIIQQ", 0, 11, 0, 0, rows_at, SYMBOLS * 24, 2, 1, 8, 24) +
              struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, names_at, names_len, 0, 0, 1, 0), sections_at)
held = []
for i in range(FILES):
    f = os.memfd_create("symbols")
    elf(f)
    held.append(mmap.mmap(f, PAGE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC))
print("ready", flush=True)
sys.stdin.read()
"""

DAMAGED = """
import mmap, random, sys
rng = random.Random(int(sys.argv[1]))
data = open(sys.argv[2], "rb").read()
held = []
for i in range(int(sys.argv[4])):
    cut = bytearray(data[:rng.randrange(64, len(data))] if i % 2 else data)
    for _ in range(rng.randrange(1, 200)):
        at = rng.randrange(64 if i % 4 < 3 else 0, len(cut))
        cut[at] = rng.choice((0, 1, 0x7f, 0x80, 0xff, rng.randrange(256)))
    path = f"{sys.argv[3]}/lib{i}.so"
    with open(path, "wb") as f:
        f.write(cut)
    with open(path, "rb") as f:
        held.append(mmap.mmap(f.fileno(), min(65536, len(cut)), mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC))
print("ready", flush=True)
sys.stdin.read()
"""


def sparse(rng):
    attacker = hostile.python(HOLD, SYMBOLS, PAGE, 1, 2).ready()
    return attacker, 2


def dense(rng):
    attacker = hostile.python(HOLD, 7900000 if job.LONG else 2000000, PAGE, 0, 1).ready()
    return attacker, 0


def damaged(rng):
    """Of the stand-ins that the jobs here have, with their DWARF."""
    place = hostile.place()
    attacker = hostile.python(DAMAGED, rng.randrange(1 << 30), hostile.NCCL, place, 40).ready()
    return attacker, 0


def wait_said(daemon, pid, n_least):
    """How many of its files are said; so many come, however late."""
    end = time.monotonic() + SAID_MOST_S
    while True:
        daemon.check_alive()
        said = daemon.stderr().count(f"pid {pid}: /memfd:symbols")
        if said >= n_least or time.monotonic() > end:
            return said
        time.sleep(0.2)


def main():
    job.need_root()
    rng, _ = job.seed()
    victim = hostile.Victim(rng, steps=2000 if job.LONG else 900)
    victim.wait_begun()
    daemon = hostile.Daemon().wait()
    for case in (sparse, dense, damaged):
        attacker, n_said = case(rng)
        time.sleep(SEEN_S if job.LONG else 3)
        said = wait_said(daemon, attacker.process.pid, n_said)
        print(f"  {case.__name__}: {said} files said", flush=True)
        job.check(said >= n_said and said <= max(n_said, 1), f"{said} files are said, {n_said} were expected")
        attacker.kill()
    truth = victim.end()
    daemon.stop()
    hostile.check_no_finding(daemon, victim.pids())
    hostile.check_gap(daemon)
    print(f"  {len(truth)} operations of the job")


main()
