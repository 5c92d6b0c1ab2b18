# SPDX-License-Identifier: Apache-2.0
# runs alone: forks by the thousand, and judges how long the daemon did not look
"""ranktrace watch beside thousands of processes that live for milliseconds, half of them children of what is watched,
some with NCCL mapped: a hang meanwhile is named, looks stay frequent, the daemon stays small."""
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import cost
import job
import outside

SIM = os.path.join(os.path.realpath(job.O), "lib/ranktrace/sim")
AID = os.path.dirname(os.path.abspath(job.__file__))
STORM_S = 60 if job.LONG else 14


def compiled():
    path = tempfile.mkdtemp(prefix="ranktrace-watch-churn-")
    job.dirs.append(path)
    out = subprocess.run(["cc", "-O1", "-w", "-o", f"{path}/storm", f"{AID}/storm.c", "-ldl"], capture_output=True,
                         text=True)
    if out.returncode:
        job.skip(f"no C compiler here: {out.stderr}")
    return f"{path}/storm"


class Storm:
    """Begins when told to: its process is watched by then."""

    def __init__(self, program, what, env=None):
        self.process = subprocess.Popen(["bash", "-c", f"read; exec {program} {STORM_S} {what}"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=env)
        job.jobs.append(self)

    def begin(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        out, _ = self.process.communicate(timeout=STORM_S + 60)
        made, bad = (int(w) for w in out.split() if w.isdigit())
        job.check(not bad, f"{bad} of {made} children failed")
        return made

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()


def main():
    job.need_root()
    rng, _ = job.seed()
    program = compiled()
    rank, step = rng.randrange(8), rng.randrange(110, 130)
    env = dict(os.environ, RANK="9", WORLD_SIZE="10", LOCAL_RANK="9")
    storms = [Storm(program, "exec"), Storm(program, f"{SIM}/libnccl.so.2", env)]
    with autopsies.Autopsy(["--ranks", 8, "--steps", 4000, "--step-ms", 50, "--seed", rng.randrange(1 << 30), "--fault",
                            f"hang:rank={rank},step={step}"]) as a:
        s = outside.Session(a, "watch", "--no-raise", *[x for t in storms[1:] for x in ("--pid", t.process.pid)])
        time.sleep(3)
        for t in storms:
            t.begin()
        h = s.wait(STORM_S + 60, kind="hang", phase="open")
        outside.check_rank(s, h, rank, "missing_enter")
        outside.check_lacking(a, h, rank)
        late = (h["t_ns"] - outside.first_wait_ns(a, h)) / 1e9
        made = [t.end() for t in storms]
        kib = cost.status_kib(s.process.pid, "VmHWM")
        job.check(s.stop() == 1, "exit code is not 1")
        text = s.stderr()
        gap = float(text[text.rindex("longest gap between two polls "):].split()[5])
        print(f"  {made} processes in {STORM_S} s; rank {rank} named {late:.2f} s after the first peer waited; longest "
              f"gap {gap:.2f} s; "
              f"{kib / 1024:.1f} MiB at most")
        job.check(sum(made) >= (5000 if job.LONG else 1000), f"{made} processes: no storm")
        job.check(late <= 10, f"{late:.2f} s")
        job.check(gap <= (1 if job.LONG else 3), f"the daemon did not look for {gap} s")
        job.check(kib <= 40 * 1024, f"{kib} KiB resident")
        job.check(not s.others(rank), f"others are named: {s.others(rank)}")


if __name__ == "__main__":
    main()
