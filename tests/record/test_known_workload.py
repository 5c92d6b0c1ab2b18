# SPDX-License-Identifier: Apache-2.0
"""Known workload: replay --ops equals the job's own log, none more, none less; also when attached in the middle."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import known

LAYOUTS = {2: ["tp=1,dp=2,pp=1", "tp=1,dp=1,pp=2"], 4: ["tp=1,dp=4,pp=1", "tp=2,dp=1,pp=2"],
           8: ["tp=1,dp=8,pp=1", "tp=2,dp=2,pp=2"]}

job.need_root()
rng, number = job.seed()
for n, layouts in LAYOUTS.items():
    for one in layouts:
        known.whole(n, one, rng.randrange(1 << 30), "--extra-ops")
known.middle(4, LAYOUTS[4][0], rng.randrange(1 << 30))
known.middle(8, LAYOUTS[8][1], rng.randrange(1 << 30))
