# SPDX-License-Identifier: Apache-2.0
"""Each helper process of a daemon is killed, and stopped, again and again: the next takes its place, a healthy job
stays without a finding, a hang is found as ever and names its rank alone, and of each kind it is said once."""
import ctypes
import os
import signal
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import job
import outside
import test_privileges

WORKERS = ["ranktrace-read", "ranktrace-parse", "ranktrace-nvml"]
ZYGOTE = "ranktrace-zyg"
SIGNALS = [signal.SIGKILL, signal.SIGSTOP]
PR_SET_CHILD_SUBREAPER = 36


def ends(rng, hit):
    """One of each kind that is there; of the zygotes one at a time, as there is one spare."""
    found = test_privileges.family(os.getpid())
    zygotes = [pid for pid, name in found.items() if name == ZYGOTE]
    chosen = [(pid, name) for pid, name in found.items() if name in WORKERS]
    if zygotes:
        chosen.append((rng.choice(zygotes), ZYGOTE))
    for pid, name in chosen:
        which = rng.choice(SIGNALS)
        try:
            os.kill(pid, which)
            hit.append((name, which))
        except ProcessLookupError:
            pass


def ended_until(rng, s, hit, done, timeout):
    end = time.monotonic() + timeout
    while time.monotonic() < end and not done():
        job.check(s.process.poll() is None, f"the daemon ended with {s.process.returncode}: {s.stderr()}")
        ends(rng, hit)
        for _ in range(25):
            if done():
                return
            time.sleep(0.1)


def times_said(s):
    text = s.stderr()
    return {name: text.count(f"a helper process, {name},") for name in [*WORKERS, ZYGOTE]}


def check_said_once(s):
    text = s.stderr()
    for name, n in times_said(s).items():
        job.check(n == 1, f"said {n} times of {name}: {text}")
    job.check("no helper process is left" not in text, text)


def main():
    job.need_root()
    rng, number = job.seed()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    rank = rng.randrange(4)
    with autopsies.Autopsy(["--ranks", 4, "--steps", 4000, "--step-ms", 50, "--seed", number, "--fault",
                            f"hang:rank={rank},step=160"]) as a:
        with open(f"{a.dir}/nvml.c", "w") as f:
            f.write(test_privileges.NVML)
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-w", "-o", f"{a.dir}/nvml.so",
                        f"{a.dir}/nvml.c"], check=True)
        os.environ["RANKTRACE_NVML"] = f"{a.dir}/nvml.so"
        s = outside.Session(a, "watch", "--no-raise")
        hit = []
        ended_until(rng, s, hit, lambda: any(f["fault"] == "hang" for f in job.lines(a.fault_log)), 60)
        wrong = [f for f in s.findings if f["kind"] not in ("observation", "lost_events", "slow_step")]
        job.check(not wrong, f"while nothing was wrong: {wrong}")
        ended_until(rng, s, hit, s.hangs, 60)
        # an end shows when that helper is needed next, and a parser seldom is: beside a hang as well as before it
        ended_until(rng, s, hit, lambda: all(times_said(s).values()) and {w for _, w in hit} == set(SIGNALS), 60)
        f = s.hangs()[0] if s.hangs() else None
        outside.check_rank(s, f, rank, "missing_enter")
        job.check({name for name, _ in hit} == {*WORKERS, ZYGOTE} and {which for _, which in hit} == set(SIGNALS),
                  f"not all were ended: {hit}")
        job.check(s.stop() == 1, "exit code is not 1")
        check_said_once(s)
        job.check(not s.others(rank), f"others are named: {s.others(rank)}")
        print(f"  {len(hit)} helpers ended; rank {rank} named, nobody else")


if __name__ == "__main__":
    main()
