# SPDX-License-Identifier: Apache-2.0
"""A libnccl without DWARF: nothing can be read from memory, so a communicator's key is the hash of the 128-byte unique
id that the creation call carries by value, and its rank the argument behind it. Where no id passes (Split), it is
unknown."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(1, sys.path[0] + "/../aid")
import job

job.need_root()
_, number = job.seed()
libs = os.path.join(job.O, "lib/ranktrace/sim")
folder = tempfile.mkdtemp(prefix="ranktrace-nodwarf-")
job.dirs.append(folder)
shutil.copy(f"{libs}/libcuda.so.1", folder)
subprocess.run(["objcopy", "--strip-debug", f"{libs}/libnccl.so.2", f"{folder}/libnccl.so.2"], check=True)
j = job.Job(["--ranks", 4, "--steps", 23, "--layout", "tp=1,dp=2,pp=2", "--seed", number,
             "--nccl-lib", f"{folder}/libnccl.so.2"], name="nodwarf")
job.check(j.end() == 0, f"findings or failure: {j.findings}\n{j.stderr()}")
truth, seen = job.lines(j.ops_log), j.replay("--ops")
known = {o["comm"] for o in seen if o["comm"]}
print(f"{len(seen)} of {len(truth)} operations, {len(known)} of {len({o['comm'] for o in truth})} communicators known "
      f"by their id")
job.check(len(seen) == len(truth), "operations were missed")
job.check(len(known) >= 2, "neither InitRank's nor InitRankConfig's communicator is known")  # world and pipeline
missing, extra = job.compare_ops([o for o in truth if o["comm"] in known], [o for o in seen if o["comm"]])
job.check(not missing and not extra, f"missing {missing[:3]} extra {extra[:3]}")
world = next(c for c in known if {o["rank"] for o in truth if o["comm"] == c} == {0, 1, 2, 3})
tracks = ",".join(f"comm {world[:6]}\u2026 (rank {r} of 4)" for r in range(4))
check = subprocess.run([sys.executable, "-B", "tools/check_pftrace.py", "--expect-tracks", tracks, j.trace],
                       capture_output=True, text=True)
job.check(check.returncode == 0, f"rank or size of the world communicator read wrong: {check.stderr}")
peers = {o["peer"] for o in seen if o["op"] == "Send" and o["comm"]}
job.check(peers, "no Send on a communicator known by its id")
j.check_replay()
