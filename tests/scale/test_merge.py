# SPDX-License-Identifier: Apache-2.0
# runs alone with LONG=1: it judges how long a merge takes, by user time
"""ranktrace autopsy --merge over the recordings of 1,280 hosts with 8 ranks each: the right root, in time and memory.
HOSTS=n asks for another number of them."""
import json
import os
import resource
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hung_job

RANKTRACE = os.path.join(os.environ.get("O", "build"), "ranktrace")
HOSTS, PER_HOST = int(os.environ.get("HOSTS", 1280)), 8
CPU_S, RSS_MIB = 10, 1024  # of user time: a machine that has other work may take longer by the clock


def check(ok, text):
    if not ok:
        sys.exit(f"FAIL: {text}")


seed = int(os.environ.get("SEED", 7))
with tempfile.TemporaryDirectory() as folder:
    job = hung_job.Job(HOSTS, PER_HOST, seed)
    paths = [f"{folder}/{job.host_name(h)}.rtr" for h in range(HOSTS)]
    for h, path in enumerate(paths):
        job.write(h, path)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([RANKTRACE, "autopsy", "--merge", "--json", *paths], capture_output=True, text=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
user_s, rss_mib = used.ru_utime - before.ru_utime, used.ru_maxrss / 1024
print(f"  seed {seed}: {HOSTS} hosts, {job.n} ranks: {user_s:.1f} s of user time, {rss_mib:.0f} MiB")
check(done.returncode == 1, f"exit {done.returncode}: {done.stderr[-2000:]}")
found = [json.loads(line) for line in done.stdout.splitlines()]
roots = [f for f in found if f["kind"] == "hang" and not f["caused_by"]]
check(len(roots) == 1, f"not one root: {done.stdout[:4000]}")
root = roots[0]
check(root["class"] == "missing_enter" and root["ranks"] == [job.culprit], f"rank {job.culprit} is not named: {root}")
check(root["host"] == job.host_name(job.culprit // PER_HOST), f"on the wrong host: {root}")
check(root["pids"] == [job.pid(job.culprit)], f"not its host's pid: {root}")
check(root["comm"] == f"0x{job.culprits_group:016x}", f"not the communicator that it lacks: {root}")
check(rss_mib <= RSS_MIB, f"{rss_mib:.0f} MiB")
check(user_s <= CPU_S, f"{user_s:.1f} s")
