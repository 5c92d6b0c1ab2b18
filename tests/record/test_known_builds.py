# SPDX-License-Identifier: Apache-2.0
"""Known workload where libnccl is not one shared library: two copies in each process, with other layouts or of the very
same build, and NCCL linked into the job's own binary, with its names in .dynsym or in .symtab only."""
import os
import shutil
import sys
import tempfile

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import known

SIM = os.path.realpath(os.path.join(job.O, "lib/ranktrace/sim"))

job.need_root()
rng, number = job.seed()
for layout in 1, 2:
    j, truth, seen = known.whole(4, "tp=2,dp=2,pp=1", rng.randrange(1 << 30), "--extra-ops", "--nccl-lib2",
                                 f"{SIM}/layout{layout}/libnccl.so.2", name="two-copies")
with tempfile.TemporaryDirectory() as copies:
    again = shutil.copy(f"{SIM}/libnccl.so.2", copies)
    known.whole(4, "tp=2,dp=2,pp=1", rng.randrange(1 << 30), "--extra-ops", "--nccl-lib2", again, name="same-build")
for exe in "simjob-static", "simjob-static-symtab":
    print(f"ranks are {exe}")
    known.whole(4, "tp=2,dp=1,pp=2", rng.randrange(1 << 30), "--extra-ops", "--rank-exe", f"{SIM}/{exe}",
                name=exe)
    known.middle(4, "tp=1,dp=4,pp=1", rng.randrange(1 << 30), "--rank-exe", f"{SIM}/{exe}")
