# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the tracer: the job goes on to its end, no probe is left, the recording is readable."""
import json
import os
import signal
import subprocess
import time

import job


def our_links():
    out = subprocess.run(["bpftool", "-j", "link", "list"], capture_output=True, text=True)
    names = {p["id"] for p in json.loads(subprocess.run(["bpftool", "-j", "prog", "list"], capture_output=True,
                                                        text=True).stdout) if p.get("name", "").startswith("nccl_")}
    return [link for link in json.loads(out.stdout or "[]") if link.get("prog_id") in names]


job.need_root()
_, number = job.seed()
j = job.Job(["--ranks", 4, "--steps", 150, "--seed", number], attach_after=2.0, name="kill")
time.sleep(3)
before = len(our_links())
job.check(before > 0, "no links while tracing: this test would prove nothing")
os.kill(j.process.pid, signal.SIGKILL)
j.process.wait()
end = time.monotonic() + 10
while our_links() and time.monotonic() < end:
    time.sleep(0.1)
left = our_links()
status = j.sim_process.wait(60)
job.check(status == 0, f"the job did not survive: {status}")
job.check(not left, f"links left behind: {left}")
seen = j.replay("--ops")
job.check(len(seen) > 50, f"only {len(seen)} operations readable after the kill")
print(f"{before} links before, none after; the job ended with 0; {len(seen)} operations readable")
