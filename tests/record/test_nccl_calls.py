# SPDX-License-Identifier: Apache-2.0
"""Entry points of NCCL 2.29 to 2.31, by a library that has them and one more: the eight collectives with a trailing
ncclCollConfig_t become the operations that they are, with the arguments at their places; the one-sided calls are
recorded and are no operations; what a later NCCL has is said by name, once, and questions and settings are not."""
import json
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import rtr

# name: parameters, as in nccl.h; a call's arguments are numbers of their own, so that a wrong place shows
COLLECTIVES = {
    "AllReduce": "const void *s, void *r, unsigned long count, int dtype, int redop, void *comm, void *stream",
    "Broadcast": "const void *s, void *r, unsigned long count, int dtype, int root, void *comm, void *stream",
    "Reduce": "const void *s, void *r, unsigned long count, int dtype, int redop, int root, void *comm, void *stream",
    "AllGather": "const void *s, void *r, unsigned long count, int dtype, void *comm, void *stream",
    "ReduceScatter": "const void *s, void *r, unsigned long count, int dtype, int redop, void *comm, void *stream",
    "AlltoAll": "const void *s, void *r, unsigned long count, int dtype, void *comm, void *stream",
    "Gather": "const void *s, void *r, unsigned long count, int dtype, int root, void *comm, void *stream",
    "Scatter": "const void *s, void *r, unsigned long count, int dtype, int root, void *comm, void *stream",
}
SIGNALS = {
    "PutSignal": "const void *s, unsigned long count, int dtype, int peer, void *window, unsigned long offset, "
                 "int index, int ctx, unsigned flags, void *comm, void *stream",
    "Signal": "int peer, int index, int ctx, unsigned flags, void *comm, void *stream",
    "WaitSignal": "int count, void *descriptors, void *comm, void *stream",
}
OTHERS = {"FutureOp": "int x", "GetVersion": "int *x", "CommCount": "void *c, int *n", "GroupStart": "void",
          "GroupEnd": "void"}
VALUES = {"count": 4000, "dtype": 7, "redop": 2, "root": 3, "peer": 5, "comm": 0xc0, "stream": 0x5}
NCCL_SIGNAL = 7

job.need_root()
folder = tempfile.mkdtemp(prefix="ranktrace-nccl-calls-")
job.dirs.append(folder)


def arguments(parameters, n):
    """The n-th call: its count says which it is."""
    names = [p.split()[-1].lstrip("*") for p in parameters.split(", ")]
    return ", ".join(str(VALUES.get(name, 90 + i) + (n if name == "count" else 0)) for i, name in enumerate(names))


functions = {"nccl" + n: p for n, p in {**COLLECTIVES, **SIGNALS, **OTHERS}.items()}
functions.update({f"nccl{n}Config": p + ", const void *config" for n, p in COLLECTIVES.items()})
with open(f"{folder}/nccl.c", "w") as f:
    for i, (name, parameters) in enumerate(functions.items()):
        f.write(f"int {name}({parameters}) {{ static volatile int v; return v += {i}; }}\n")
with open(f"{folder}/main.c", "w") as f:
    f.write("#include <unistd.h>\n")
    f.writelines(f"int {name}({parameters});\n" for name, parameters in functions.items())
    f.write("int main(void) {\nsleep(2);\n")
    for n, (name, parameters) in enumerate(functions.items()):
        if name[4:] not in OTHERS:
            f.write(f"{name}({arguments(parameters, n)});\n")
    f.write("sleep(1);\nreturn 0; }\n")
for command in (f"cc -O1 -shared -fPIC -o {folder}/libnccl.so.2 {folder}/nccl.c",
                f"cc -O0 -w -o {folder}/program {folder}/main.c {folder}/libnccl.so.2"):
    job.check(subprocess.run(command.split()).returncode == 0, command)

run = subprocess.run([job.RANKTRACE, "record", "-o", f"{folder}/f.rtr", "--", f"{folder}/program"], capture_output=True,
                     text=True, env=dict(os.environ, RANK="0", WORLD_SIZE="1"))
job.check(run.returncode == 0, run.stderr)
said = [line for line in run.stderr.splitlines() if "not traced" in line]
job.check(len(said) == 1 and said[0].endswith("libnccl.so.2: 1 entry point not traced: ncclFutureOp"), run.stderr)

out = subprocess.run([job.RANKTRACE, "replay", "-q", "--ops", f"{folder}/f.rtr"], capture_output=True, text=True)
seen = sorted((o["op"], o["count"], o["dtype"]) for o in map(json.loads, out.stdout.splitlines()))
names = list(functions)
want = sorted((op, VALUES["count"] + names.index(name), "fp32") for op in COLLECTIVES
              for name in ("nccl" + op, f"nccl{op}Config"))
job.check(seen == want, f"seen {seen}, called {want}")

got = [struct.unpack_from("<QQQiiI", body) for tracer, kind, _, _, body in rtr.records(f"{folder}/f.rtr")
       if (tracer, kind) == (rtr.NCCL, NCCL_SIGNAL)]
count = {name: VALUES["count"] + names.index("nccl" + name) for name in SIGNALS}
called = [(VALUES["comm"], VALUES["stream"], count["PutSignal"], VALUES["peer"], VALUES["dtype"], 1),
          (VALUES["comm"], VALUES["stream"], 0, VALUES["peer"], -1, 2),
          (VALUES["comm"], VALUES["stream"], count["WaitSignal"], -1, -1, 3)]
job.check(got == called, f"one-sided calls: seen {got}, called {called}")
