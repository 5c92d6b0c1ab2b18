# SPDX-License-Identifier: Apache-2.0
"""A job computes the same with and without the tracer: eager, in graphs, through faults, with two libraries, attached
late."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(1, sys.path[0] + "/../aid")
import job

SIM = os.path.realpath(os.path.join(job.O, "lib/ranktrace/sim"))
JOBS = [
    ["--extra-ops"],
    ["--graph", "step", "--timing"],
    ["--graph", "layers", "--zero"],
    ["--fault", "hang:sec=4", "--fault", "mismatch:what=dtype"],
    ["--extra-ops", "--nccl-lib2", f"{SIM}/layout2/libnccl.so.2"],
]


def read(path):
    with open(path) as f:
        return f.read()


def results(options, seed, steps=40, **how):
    args = ["--ranks", 4, "--layout", "tp=2,dp=2,pp=1", "--steps", steps, "--step-ms", 30, "--seed", seed, *options]
    untraced, traced = f"{directory}/untraced", f"{directory}/traced"
    subprocess.run([job.RANKTRACE, "sim", "job", "-q", *map(str, args), "--result", untraced], check=True)
    j = job.Job([*args, "--result", traced], name="results", **how)
    j.end()
    job.check(j.replay("--ops"), "the tracer saw no operation")
    job.check(read(untraced), "the job has no result")
    job.check(read(untraced) == read(traced), f"{options}: {read(untraced)} untraced, {read(traced)} traced")
    print(f"  {options}: the same on all 4 ranks")
    return read(untraced)


job.need_root()
rng, number = job.seed()
directory = tempfile.mkdtemp(prefix="ranktrace-results-")
job.dirs.append(directory)
seen = {results(options, rng.randrange(1 << 30)) for options in JOBS}
job.check(len(seen) == len(JOBS), "different jobs have the same result")
results(["--extra-ops"], rng.randrange(1 << 30), steps=300, attach_after=0.1)
