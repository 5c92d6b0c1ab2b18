# SPDX-License-Identifier: Apache-2.0
"""What makes steps longer is named with rank, phase and object: one busy worker of four, an optimizer that grows on all
ranks, collections of garbage now here and now there, a checkpoint on a file system that is frozen. By recordings of the
simulated job (tests/replay/reason_*.rtr; README.md there has the jobs), and with LONG=1 all of them by new ones: on a
busy machine ranks are late for want of a CPU, and not in the phase that is slow. REASON=NAME: that one alone."""
import json
import os
import subprocess
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import job

HERE = os.path.dirname(os.path.abspath(__file__))
JOB = ["--seed", 7, "--ranks", 2, "--step-ms", 30, "--torch", "--quiet"]
# name: (what the job is given, kinds of findings, what one of them says, of which ranks)
REASONS = {
    "worker": (["--workers", 4, "--steps", 500, "--fault", "loader:rank=1,ms=300,how=busy,step=200,n=2"],
               ("slow_step", "straggler"), {"phase": "data_wait", "child_name": "pt_data_worker"}, [1]),
    "grow": (["--steps", 560, "--fault", "grow:ms=0.4,step=300,what=optimizer"], ("slow_step",),
             {"phase": "optimizer", "phase_who": "everybody"}, None),
    "gc": (["--steps", 560, "--fault", "gc:rate=0.35,step=300"], ("slow_step",), {"phase": "gc", "phase_who": "turns"},
           None),
    "checkpoint": (["--steps", 160, "--fault", "dstate:rank=1,step=100,sec=6"], ("d_state",),
                   {"phase": "other", "syscall": "openat"}, [1]),
}
KEPT = ("worker", "gc", "checkpoint")
KEPT_WORKER = 14205  # its process, as the job itself said


def says(f, kinds, evidence, rank):
    """A slow step is the job's, and names the ranks whose phase it is."""
    if f["kind"] not in kinds or any(f["evidence"].get(k) != v for k, v in evidence.items()):
        return False
    return rank is None or f["ranks"] == rank or f["evidence"].get("phase_ranks") == ",".join(map(str, rank))


def object_check(name, f):
    if name == "checkpoint":
        job.check("checkpoint" in (f["evidence"].get("file") or "") and f["evidence"].get("mount"), f"which file: {f}")
    if name == "worker":
        job.check(f["evidence"].get("child_pid"), f"which worker: {f}")


def checked(name, findings):
    _, kinds, evidence, rank = REASONS[name]
    named = [f for f in findings if says(f, kinds, evidence, rank)]
    job.check(named, f"{name}: {evidence} of {rank} is not said: {[(f['kind'], f['summary']) for f in findings]}")
    object_check(name, named[-1])
    grave = [f for f in findings if f["severity"] == "critical" and name != "checkpoint"]
    job.check(not grave, f"{name}: critical: {grave[:1]}")
    print(f"{name}: {named[-1]['summary']}", flush=True)
    return named[-1]


def kept(name):
    path = f"{HERE}/../replay/reason_{name}.rtr"
    out = subprocess.run([job.RANKTRACE, "replay", "-q", "--json", path], capture_output=True, text=True)
    job.check(out.returncode in (0, 1), f"replay of {path}: {out.stderr}")
    f = checked(name, [json.loads(line) for line in out.stdout.splitlines()])
    if name == "worker":
        job.check(f["evidence"]["child_pid"] == KEPT_WORKER, f"another worker: {f}")


def live(name):
    job.need_root()
    j = job.Job([*JOB, *REASONS[name][0]], name=name)
    j.end(120)
    print(f"{name}: recorded in {j.rtr}", flush=True)
    checked(name, j.findings)


for name in [os.environ["REASON"]] if "REASON" in os.environ else REASONS:
    if name in KEPT:
        kept(name)
    if job.LONG:
        live(name)
