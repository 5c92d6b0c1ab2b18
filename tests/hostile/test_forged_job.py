# SPDX-License-Identifier: Apache-2.0
"""Another user's process with the whole environment of a rank of the job, and the job's library mapped: it is a job of
its own, and nothing is said of the real one. And another user's job whose communicators say the job's commHash in
memory, and then stand still: they are in none of the job's."""
import collections
import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import hostile
import job

SEEN_S = 3  # several scans of the host
AHEAD = 1000  # operations of all ranks, in each communicator: the forger has so many more
BEHIND = 50


def environment(pid):
    with open(f"/proc/{pid}/environ", "rb") as f:
        return dict(v.split(b"=", 1) for v in f.read().split(b"\0") if b"=" in v)


def jobs_by_pid():
    out = subprocess.run([job.RANKTRACE, "ps", "--json"], capture_output=True, text=True, timeout=60)
    job.check(out.returncode == 0, f"ps: exit {out.returncode}: {out.stderr}")
    return {p["pid"]: p.get("job") for p in map(json.loads, out.stdout.splitlines()) if "pid" in p}


def forged_environment(rng):
    victim = hostile.Victim(rng, steps=300)
    victim.wait_begun()
    pids = victim.pids()
    library = hostile.fake_library(f"{hostile.place()}/libnccl.so.2", lambda name: "nccl" in name, 0)
    forged = environment(max(pids))
    job.check(b"RANK" in forged and b"WORLD_SIZE" in forged, "no rank to forge: this test would prove nothing")
    attacker = hostile.python(hostile.MAP_ONE, library, env=forged).ready()
    daemon = hostile.Daemon().wait()
    time.sleep(SEEN_S)
    jobs = jobs_by_pid()
    own, other = {jobs.get(p) for p in pids}, jobs.get(attacker.process.pid)
    print(f"  the job is {own}, the other process is of {other!r}")
    job.check(len(own) == 1 and None not in own, f"the job's ranks are of {own}")
    job.check(other is not None, "ps does not show the attacker: this test would prove nothing")
    job.check(other not in own, f"another user's process is of the job {other!r}")
    victim.end()
    attacker.kill()
    daemon.stop()
    hostile.check_no_finding(daemon, pids)
    hostile.check_gap(daemon)


def hash_write(pid, old, new):
    """What the attacker may do to its own memory; the hand is ours. How many places held the old one."""
    n = 0
    with open(f"/proc/{pid}/maps") as f, open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        for line in f:
            m = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw-p", line)
            if not m or "[v" in line:
                continue
            begin, end = int(m[1], 16), int(m[2], 16)
            memory.seek(begin)
            try:
                data = memory.read(end - begin)
            except OSError:
                continue
            for hit in re.finditer(re.escape(old), data):
                memory.seek(begin + hit.start())
                memory.write(new)
                n += 1
    return n


def comms_of(log):
    """Communicators with two ranks, as the job itself says: the number of their operations, the least one first."""
    ranks, n = {}, collections.Counter()
    for o in job.lines(log):
        ranks.setdefault(o["comm"], set()).add(o["pid"])
        n[o["comm"]] += 1
    return {c: n[c] for c in sorted(n, key=n.get) if len(ranks[c]) == 2}


def least(comms):
    return min(comms.values(), default=0)


def packed(comm):
    return int(comm, 16).to_bytes(8, "little")


def behind(pids):
    """By how many operations these are behind others in their communicators, as the autopsy's table has it: a healthy
    rank by one or two. None: they are not in the table."""
    out = subprocess.run([job.RANKTRACE, "autopsy"], capture_output=True, text=True, timeout=60).stdout
    rows = [m for m in re.finditer(r"^ +[0-9]+ +([0-9]+) .*0x.*$", out, re.M) if int(m[1]) in pids]
    return max(int(n) for m in rows for n in ["0", *re.findall("behind by ([0-9]+)", m[0])]) if rows else None


def verdicts(pids):
    out = subprocess.run([job.RANKTRACE, "autopsy", "--json"], capture_output=True, text=True, timeout=60)
    found = [json.loads(line) for line in out.stdout.splitlines() if line.startswith("{")]
    return [f for f in found if "kind" in f and set(f.get("pids", [])) & set(pids) and f["kind"] != "observation"]


def forged_memory(rng):
    """The forger is there first, is rank 0, and thousands of operations ahead: where it is believed, the job's rank 1
    has not come for long."""
    place = hostile.place()
    attacker = hostile.Program([os.path.realpath(job.RANKTRACE), "sim", "job", "--ranks", "2", "--steps", "50000",
                                "--step-ms", "3", "--log", f"{place}/ops.jsonl"])
    end = time.monotonic() + 60
    while least(comms_of(f"{place}/ops.jsonl")) < AHEAD and time.monotonic() < end and attacker.process.poll() is None:
        time.sleep(0.5)
    if not comms_of(f"{place}/ops.jsonl"):
        job.skip("nobody may not run the stand-ins of this build")
    victim = hostile.Victim(rng, steps=400, step_ms=100)  # two autopsies take their time on a busy machine
    victim.wait_begun()
    own, other = comms_of(victim.ops_log), comms_of(f"{place}/ops.jsonl")
    forgers = {o["pid"]: o["rank"] for o in job.lines(f"{place}/ops.jsonl")}
    pids, first = victim.pids(), min(forgers, key=forgers.get)
    for pid in forgers:
        os.kill(pid, signal.SIGSTOP)
    n = sum(hash_write(first, packed(of), packed(to)) for to, of in zip(own, other))
    job.check(n >= 1, f"{n} hashes were forged: this test would prove nothing")
    daemons = [hostile.Daemon().wait(), hostile.Daemon("--no-raise", command="watch")]
    time.sleep(6)
    wrong, n_behind = verdicts(pids), behind(pids)
    job.check(not wrong, f"autopsy about the victim: {wrong}")
    job.check(n_behind is not None, "the autopsy does not show the victim: this test would prove nothing")
    job.check(n_behind < BEHIND, f"the victim is behind by {n_behind} operations: the forger is believed")
    least_ahead = min(n - m for n, m in zip(other.values(), comms_of(victim.ops_log).values()))
    job.check(least_ahead > 4 * BEHIND, f"the forger is ahead by {least_ahead} only: this test would prove nothing")
    victim.end()
    for daemon in daemons:
        daemon.stop()
        hostile.check_no_finding(daemon, pids)
        hostile.check_gap(daemon)
    attacker.kill()
    print(f"  {n} forged hashes of {len(other)} communicators: nothing about the job")


def main():
    job.need_root()
    rng, _ = job.seed()
    for case in (forged_environment, forged_memory):
        print(f"{case.__name__}:", flush=True)
        case(rng)


main()
