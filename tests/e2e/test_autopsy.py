# SPDX-License-Identifier: Apache-2.0
"""ranktrace autopsy, started after the hang: F1, F3, F4, F6, F8 and F18 by NCCL's counters alone; layouts of the library that no
build knew; a healthy job; a library that says nothing of its layout."""
import autopsies
import job

job.need_root()
rng, _ = job.seed()
libs = f"{job.O}/lib/ranktrace/sim"
for trial in range(job.TRIALS):
    other = ("--nccl-lib", f"{libs}/layout{1 + trial % 2}/libnccl.so.2")
    autopsies.hang("stop:rank={rank},step={step}", "stopped", rng)
    autopsies.hang("hang:rank={rank},step={step}", "missing_enter", rng, other)
    autopsies.hang("hang:rank={rank},step={step}", "missing_enter", rng, ["--layout", "tp=2,dp=2,pp=2"], exact=False)
    autopsies.hang("dstate:rank={rank},step={step},sec=20", "host_blocked", rng)
    autopsies.hang("dstate-mm:rank={rank},step={step},sec=20", "host_blocked", rng, exact=False, floor=0.6)
    autopsies.deadlock(rng)
    autopsies.init(rng, ("sleep", "stop", "busy")[trial % 3])
autopsies.healthy(rng)
autopsies.healthy(rng, other)
autopsies.no_dwarf(rng)
