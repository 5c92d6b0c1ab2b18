# SPDX-License-Identifier: Apache-2.0
"""ranktrace record on a job that hangs already: probes come too late for its calls, NCCL's counters in its memory do
not."""
import os
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import faults
import job
import outside

job.need_root()
rng, _ = job.seed()
LIMIT_S = 5.0 if os.environ.get("LONG") else 20.0


def case(fault, hang_class, extra=()):
    rank, step, number = faults.draw(rng)
    args = ["--ranks", 8, "--steps", 400, "--seed", number, "--fault", f"{fault}:rank={rank},step={step}", *extra]
    with autopsies.Autopsy(args) as a:
        a.wait_fault(fault)
        a.settle()
        s = outside.Session(a, "record")
        f = s.wait(40, kind="hang", phase="open")
        outside.check_rank(s, f, rank, hang_class)
        outside.check_lacking(a, f, rank)
        late = (f["t_ns"] - s.begin_ns) / 1e9
        print(f"  hang/{hang_class} rank {rank} {f['op']} #{f['seq']} {late:.2f} s after the command was started")
        job.check(late <= LIMIT_S, f"named after {late:.2f} s")
        job.check(s.stop() == 1, "exit code is not 1")
        job.check(not s.others(rank), f"others are named: {s.others(rank)}")
        job.result(f"hung before {fault} {' '.join(extra)}".strip(), late)


for trial in range(job.TRIALS):
    case("stop", "stopped")
    case("hang", "missing_enter")
    case("hang", "missing_enter", ("--layout", "tp=2,dp=2,pp=2"))
