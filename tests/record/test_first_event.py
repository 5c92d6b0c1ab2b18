# SPDX-License-Identifier: Apache-2.0
# runs beside few: judges how soon an attach is over
"""8 running ranks: the first operation is seen within 1 s after the start of the tracer."""
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import job

job.need_root()
_, number = job.seed()
j = job.Job(["--ranks", 8, "--steps", 200, "--seed", number], ["--duration", 4], attach_after=0.5, name="first")
j.end()
seen = j.replay("--ops")
job.check(seen, f"nothing seen: {j.stderr()}")
first = (min(o["t_ns"] for o in seen) - j.attach_ns) / 1e9
print(f"first operation {first:.2f} s after the tracer was started, {len({o['pid'] for o in seen})} ranks")
job.check(first <= job.bar(1.0), f"first operation after {first:.2f} s")
job.check(len({o["pid"] for o in seen}) == 8, "not every rank was seen")
