# SPDX-License-Identifier: Apache-2.0
# runs alone: a daemon that gets no CPU holds records for longer
"""ranktrace watch as it is by default, flight recorder included, beside a healthy job of eight ranks: 40 MB at most besides the rings it
maps, also if the recorder were full. LONG=1: for a minute."""
import re
import time

import autopsies
import job
import outside

DEFAULT_MB = 16  # of the recorder


def told(pattern, text):
    found = re.search(pattern, text)
    job.check(found, f"'{pattern}' is not in: {text}")
    return tuple(float(x) for x in found.groups())


job.need_root()
rng, _ = job.seed()
with autopsies.Autopsy(["--ranks", 8, "--steps", 100000, "--step-ms", 50, "--seed", rng.randrange(1 << 30)]) as a:
    s = outside.Session(a, "watch")
    time.sleep(60 if job.LONG else 15)
    job.check(s.stop() in (0, 1), "it did not end well")
    text = s.stderr()
    peak, rings = told(r"peak memory ([0-9.]+) MiB beside ([0-9.]+) MiB of mapped rings", text)
    held, = told(r"at most ([0-9.]+) MB held", text)
    print(f"  {peak} MiB at most beside {rings} MiB of rings; the recorder held {held} MB of {DEFAULT_MB}")
    job.check(peak <= 40, f"{peak} MiB resident")
    full = peak * 1.048576 - held + DEFAULT_MB * 1.07  # with the begin of a chunk and malloc's part
    job.check(full <= 40, f"{full:.1f} MB with a full recorder")
