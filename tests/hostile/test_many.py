# SPDX-License-Identifier: Apache-2.0
# runs alone: maps, threads and processes by the thousand, and judges how long the daemon does not look
"""Nobody's processes are many, short-lived or endless in one thing, each with a library of the job's kind: 65,530
mappings, 10,000 threads, one exec after the other, a pid that is used again within a millisecond. The job beside them
runs as ever, nothing is found about it, and the daemon goes on looking."""
import os
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import hostile
import job

SEEN_S = 3  # several scans of the host
AS_NOBODY = ["setpriv", "--reuid", str(hostile.NOBODY), "--regid", str(hostile.NOBODY), "--clear-groups", "--inh-caps",
             "+checkpoint_restore", "--ambient-caps", "+checkpoint_restore"]

MAPS = """
import ctypes, sys
lib, libc = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
f = open(sys.argv[1], "rb")
n = 0
while n < 65530 and libc.mmap(None, 4096, 1 + n % 2 * 4, 2, f.fileno(), 0) != ctypes.c_void_p(-1).value:
    n += 1  # neighbours are not alike: the kernel would make one of them
print('ready', flush=True)
sys.stdin.read()
"""


def maps(library):
    attacker = hostile.python(MAPS, library).ready()
    with open(f"/proc/{attacker.process.pid}/maps", "rb") as f:
        n = f.read().count(b"\n")
    job.check(n > 60000, f"the attacker has {n} mappings: this test would prove nothing")
    return attacker, f"{n} mappings"


def threads(library):
    n = 10000 if job.LONG else 3000
    attacker = hostile.program("threads", library, n).ready()
    have = len(os.listdir(f"/proc/{attacker.process.pid}/task"))
    job.check(have > n, f"the attacker has {have} threads: this test would prove nothing")
    return attacker, f"{have} threads"


def execs(library):
    """Processes that map the library and end, and others that call exec, as fast as one loop makes them."""
    attacker = hostile.program("storm", SEEN_S, library)
    other = hostile.program("storm", SEEN_S, "exec")
    words = [a.process.stdout.readline().split() for a in (attacker, other)]
    job.check(all(w and int(w[0]) > 50 for w in words), f"the attackers made {words}: this test would prove nothing")
    return attacker, f"{words[0][0]} processes with a library, {words[1][0]} others"


def pids(library):
    """To choose a pid takes a right, which stands for luck: nobody has that one and no other."""
    program = job.compiled("reuse")
    out = subprocess.run([*AS_NOBODY, program, hostile.SIM, "6"], capture_output=True, text=True, timeout=60)
    if out.returncode == 77:
        return None, "left out: no clone3 with set_tid here"
    made = {line.split()[0] for line in out.stdout.splitlines()}
    job.check(out.returncode == 0 and len(made) == 1, f"exit {out.returncode}, pids {made}: {out.stderr}")
    return None, f"6 processes of pid {made}"


def main():
    job.need_root()
    rng, _ = job.seed()
    victim = hostile.Victim(rng, steps=700)
    victim.wait_begun()
    daemon = hostile.Daemon().wait()
    library = hostile.fake_library(f"{hostile.place()}/libnccl.so.2", lambda name: "nccl" in name, 0)
    for case in (maps, threads, execs, pids):
        attacker, what = case(library)
        time.sleep(SEEN_S)
        daemon.check_alive()
        print(f"  {case.__name__}: {what}", flush=True)
        if attacker:
            attacker.kill()
    victim.end()
    daemon.stop()
    hostile.check_no_finding(daemon, victim.pids())
    hostile.check_gap(daemon)


main()
