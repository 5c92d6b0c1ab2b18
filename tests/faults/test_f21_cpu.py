# SPDX-License-Identifier: Apache-2.0
# runs alone: judges ranks that lack CPU
"""F21, the half of F10: hogs on the core of a rank whose layers are CUDA graphs. (Where the whole step is one graph, or
the CPU is short by a quota, a host with so little to do delays its peers by less than 5 %: by the job's own log.)"""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import host_faults
import job

job.need_root()
host_faults.need("cpu")
rng, _ = job.seed()
host_faults.starved_trials(rng, "hog", ["--graph", "layers"])
