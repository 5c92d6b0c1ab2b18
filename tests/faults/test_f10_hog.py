# SPDX-License-Identifier: Apache-2.0
# runs alone: judges ranks that lack CPU
"""F10: a rank gets too little CPU: hogs on its core. (A quota of its control group: test_f10_quota.py.)"""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import host_faults
import job

job.need_root()
host_faults.need("cpu")
rng, _ = job.seed()
host_faults.starved_trials(rng, "hog")
