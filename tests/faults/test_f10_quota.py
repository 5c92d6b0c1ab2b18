# SPDX-License-Identifier: Apache-2.0
# runs beside few: judges ranks that lack CPU, and takes none from others
"""F10: a rank gets too little CPU: a quota of its control group. (Hogs on its core: test_f10_hog.py.)"""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import host_faults
import job

job.need_root()
host_faults.need("cpu")
rng, _ = job.seed()
host_faults.starved_trials(rng, "quota")
