# SPDX-License-Identifier: Apache-2.0
# runs alone: judges how long the collector did not look, beside 64 ranks
"""64 ranks at once, just started and long running: attaching to all of them takes a second or so, in which the rings
are emptied (nothing is lost in rings a sixteenth of the usual) and the detectors go on."""
import os
import resource
import struct
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import rtr

RANKS = 64
FILES = 512
RING = 1 << 20  # a sixteenth of the default
RECORD_TICK, RECORD_ATTACH = 2, 8
GAP_S = 0.5
ATTACHED_S = 60  # of waiting for it on a busy machine; how long it takes is judged by the gap


def session_times(path):
    ticks, windows, start = [], [], None
    for tracer, kind, _, ts, body in rtr.records(path):
        if tracer == rtr.COLLECTOR:
            start = start or ts
            if kind == RECORD_TICK:
                ticks.append(ts)
            elif kind == RECORD_ATTACH:
                windows.append((struct.unpack_from("<Q", body)[0], ts))
    return start, ticks, windows


def attaches_written(path):
    if not os.path.exists(path) or os.path.getsize(path) < 16:
        return 0
    return sum((tracer, kind) == (rtr.COLLECTOR, RECORD_ATTACH) for tracer, kind, *_ in rtr.whole_records(path))


def run(name, steps, attach_after):
    j = job.Job(["--ranks", RANKS, "--steps", steps, "--seed", number], ["--ring-size", RING], attach_after, name=name)
    if attach_after is None:
        job.check(j.end(200) == 0, f"{name}: {j.findings}\n{j.stderr()}")
    else:
        end = time.monotonic() + ATTACHED_S
        while attaches_written(j.rtr) < 2 * RANKS and time.monotonic() < end:
            time.sleep(0.5)
        time.sleep(2)
        job.check(j.stop() == 0, f"{name}: {j.findings}\n{j.stderr()}")
    start, ticks, windows = session_times(j.rtr)
    busy, took = sum(e - b for b, e in windows) / 1e9, (max(e for _, e in windows) - start) / 1e9
    lost = rtr.losses(j.rtr)
    gap = j.longest_gap_s()
    print(f"{name}: {len(windows)} attaches of {busy:.2f} s in all, the last {took:.2f} s after the start; "
          f"longest gap {gap} s, lost {lost}")
    job.check("Too many open files" not in j.stderr(), j.stderr())
    job.check(len({w for w in windows}) >= 2 * RANKS, f"only {len(windows)} attaches")
    # whoever gets no CPU empties no ring
    job.check(not lost or gap > GAP_S, f"{name}: lost {lost}")
    job.check(gap < (GAP_S if job.LONG else 6 * GAP_S), f"{name}: the collector did not look for {gap} s")
    j.check_replay()


job.need_root()
rng, _ = job.seed()
number = rng.randrange(1 << 30)
# attached, 64 ranks take more files than that, in the burst tier more than the usual 1024
resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
run("started", 40, None)
run("running", 1000, 2)
