# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the tracer: the job goes on to its end, no probe is left, the recording is readable."""
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job


def our_links(j):
    """Ids of the links to this job's processes; other sessions of the host have theirs."""
    pids = {o["pid"] for o in job.lines(j.ops_log)}
    out = subprocess.run(["bpftool", "-j", "link", "list"], capture_output=True, text=True)
    return [link["id"] for link in json.loads(out.stdout or "[]") if link.get("pid") in pids]


job.need_root()
_, number = job.seed()
j = job.Job(["--ranks", 4, "--steps", 150, "--seed", number], attach_after=0.5, name="kill")
end = time.monotonic() + 20
while not our_links(j) and time.monotonic() < end:
    time.sleep(0.1)
time.sleep(2)  # what it records meanwhile has to be readable
before = len(our_links(j))
job.check(before > 0, "no links while tracing: this test would prove nothing")
os.kill(j.process.pid, signal.SIGKILL)
j.process.wait()
end = time.monotonic() + 10
while our_links(j) and time.monotonic() < end:
    time.sleep(0.1)
left = our_links(j)
status = j.sim_process.wait(60)
job.check(status == 0, f"the job did not survive: {status}")
job.check(not left, f"links left behind: {left}")
seen = j.replay("--ops")
job.check(len(seen) > 50, f"only {len(seen)} operations readable after the kill")
print(f"{before} links before, none after; the job ended with 0; {len(seen)} operations readable")
