# SPDX-License-Identifier: Apache-2.0
"""`record` follows a launcher, and has no CPU while the job begins: its probes come when that has hung already. A rank
that sleeps, one that is stopped and one that was killed are named all the same, by NCCL's counters, as in a job that
hung before the session."""
import os
import signal
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import faults
import job
import outside

job.need_root()
rng, _ = job.seed()
BEGIN_S = 4  # until the launcher starts the job: by then the session is there
FOUND_S = 40


def case(fault, hang_class):
    rank, step, number = faults.draw(rng)
    args = ["--ranks", 8, "--steps", 400, "--seed", number, "--fault", f"{fault}:rank={rank},step={step}"]
    with autopsies.Autopsy(args, within=("sh", "-c", f'sleep {BEGIN_S}; exec "$@"', "launcher")) as a:
        s = outside.Session(a, "record")
        time.sleep(BEGIN_S - 1)
        os.kill(s.process.pid, signal.SIGSTOP)
        a.wait_fault(fault)
        a.settle()
        os.kill(s.process.pid, signal.SIGCONT)
        begin = time.monotonic()
        f = s.wait(FOUND_S, kind="hang", phase="open", **{"class": hang_class})
        job.check(f, f"{fault} of rank {rank}: not named: {s.hangs()}\n{s.stderr()}")
        job.check(f["ranks"] == [rank], f"{f['ranks']} instead of {rank}: {f}")
        print(f"  {f['summary']}: {time.monotonic() - begin:.1f} s after record went on")
        job.check(s.stop() == 1, "exit code is not 1")
        job.check(not s.others(rank), f"others are named: {s.others(rank)}")


case("hang", "missing_enter")
case("stop", "stopped")
case("kill", "process_dead")
