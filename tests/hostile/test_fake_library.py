# SPDX-License-Identifier: Apache-2.0
"""Nobody maps a library with the build-id of the job's libnccl whose symbols lead into the middle of instructions,
before and while the job starts: the job's own library gets probes where its own functions begin, and the job runs to
its end. And nobody writes into its library in place, once it was inspected."""
import os
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import hostile
import job

# All its operations are to be seen: as a real rank it takes its time before, beside others' jobs that the daemon meets.
CUDA_BEGINS = {"SIM_CUDA_INIT_MS": "1200" if job.LONG else "5000"}


def check_seen(daemon, victim, truth):
    daemon.stop()
    pids = victim.pids()
    seen = [o for o in ops_of(daemon) if o["pid"] in pids]
    missing, extra = job.compare_ops(truth, seen)
    job.check(not missing and not extra, f"missing {missing[:4]} ({len(missing)}), extra {extra[:4]} ({len(extra)})")
    hostile.check_no_finding(daemon, pids)
    hostile.check_gap(daemon)
    print(f"  {len(truth)} operations of the victim, all seen, none else")


def ops_of(daemon):
    path = f"{daemon.dir}/ops.jsonl"
    with open(path, "w") as f:
        subprocess.run([job.RANKTRACE, "replay", "-q", "--ops", daemon.rtr], stdout=f, check=False)
    return job.lines(path)


def probed_fake(by):
    """A daemon that has probed a fake whose functions begin so many bytes late, as far as the kernel takes that: it
    refuses what it cannot decode. None: it did."""
    path = hostile.fake_library(f"{hostile.place()}/libnccl.so.2", lambda name: "nccl" in name, by)
    attacker = hostile.python(hostile.MAP_ONE, path).ready()
    daemon = hostile.Daemon(*job.NO_BUDGET)
    daemon.wait(lambda line: job.has_probes(line) or "cannot be probed for 'nccl'" in daemon.stderr())
    if "cannot be probed for 'nccl'" not in daemon.stderr():
        return daemon, attacker
    daemon.stop()
    attacker.kill()
    return None


def fake_first(rng):
    """The fake is mapped and probed before the job is there."""
    probed = next((p for p in map(probed_fake, rng.sample([1, 2, 3], 3)) if p), None)
    job.check(probed, "the kernel refuses every fake: this test would prove nothing")
    daemon, attacker = probed
    victim = hostile.Victim(rng, env=CUDA_BEGINS)
    truth = victim.end()
    check_seen(daemon, victim, truth)
    attacker.kill()


def rewritten(rng):
    """The fake, mapped, becomes another file in place again and again while it is looked at."""
    path = hostile.fake_library(f"{hostile.place()}/libnccl.so.2", lambda name: "nccl" in name)
    os.chown(path, hostile.NOBODY, hostile.NOBODY)
    attacker = hostile.python("import ctypes, os, sys, time\nlib = ctypes.CDLL(sys.argv[1])\n"
                              "f = os.open(sys.argv[1], os.O_WRONLY)\nprint('ready', flush=True)\n"
                              "while True:\n    os.utime(f)\n    time.sleep(0.01)\n", path).ready()
    daemon = hostile.Daemon(*job.NO_BUDGET)
    time.sleep(1)
    victim = hostile.Victim(rng, env=CUDA_BEGINS)
    truth = victim.end()
    job.check(attacker.process.poll() is None, "the attacker died: this test would prove nothing")
    check_seen(daemon, victim, truth)
    attacker.kill()


def main():
    job.need_root()
    rng, _ = job.seed()
    for case in (fake_first, rewritten):
        print(f"{case.__name__}:")
        case(rng)


main()
