# SPDX-License-Identifier: Apache-2.0
"""A libtorch of another version: its strings have an ABI that is not known, and backward another name. Both are said
to be not visible; every NCCL operation is seen all the same, no step is made up from what is left, and no finding
comes of it."""
import os
import shutil
import subprocess
import sys
import tempfile

folder = tempfile.mkdtemp(prefix="ranktrace-torch-unknown-")
built = os.environ.get("O", "build")
os.environ["O"] = folder  # ranktrace finds the simulated job, and that its libraries, beside itself
sys.path.insert(1, sys.path[0] + "/../aid")
import job

job.dirs.append(folder)
job.need_root()
_, seed = job.seed()
SOURCE = os.path.dirname(os.path.abspath(__file__)) + "/../../tools/simjob/libtorch/torch.c"
OTHERS = (("RKNSt7__cxx1112basic_string", "RKNSt3__112basic_string"), ("6Engine7execute", "6Engine8evaluate"))


def libtorch_replace():
    with open(SOURCE) as f:
        text = f.read()
    for name, other in OTHERS:
        job.check(text.count(name) == 1, f"the stand-in has no {name} in one place")
        text = text.replace(name, other)
    library = f"{folder}/lib/ranktrace/sim/libtorch_cpu.so"
    os.remove(library)
    subprocess.run(["cc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-fPIC", "-fvisibility=hidden", "-shared", "-s",
                    f"-I{os.path.dirname(SOURCE)}/../../..", "-x", "c", "-", "-o", library], input=text, text=True,
                   check=True)


def key(op):
    return op["rank"], op["comm"], op["op"], op["seq"]


shutil.copy(f"{built}/ranktrace", folder)
shutil.copytree(f"{built}/lib", f"{folder}/lib")
libtorch_replace()
j = job.Job(["--seed", seed, "--ranks", 2, "--steps", 30, "--step-ms", 20, "--torch", "--quiet"], name="unknown")
job.check(j.process.wait(90) == 0, f"record failed: {j.stderr()}")
said = j.stderr()
job.check(said.count("not visible: begins of ranges") == 1 and said.count("not visible: backward") == 1,
          f"what is not visible of libtorch: {said}")
own, seen = {key(op) for op in job.lines(j.ops_log)}, {key(op) for op in j.replay("--ops") if "op" in op}
job.check(own and own == seen, f"{len(own - seen)} of {len(own)} operations are not seen: {sorted(own - seen)[:3]}")
job.check(not [s for s in j.replay("--steps") if "step" in s], "steps are made up without their marks")
job.check(not [f for f in j.findings if f["severity"] != "info"], f"findings: {j.findings}")
print(f"{len(own)} operations, all seen")
