# SPDX-License-Identifier: Apache-2.0
"""All that `watch` serves is away at once, and it goes on: the disk of one recording is full, nobody listens at NATS'
and the webhooks' addresses, nobody scrapes. It names the rank that hangs, sees its end, counts the job's collectives;
what is away is said. (How each comes back: test_outputs_of_days, test_servers, test_notify.)"""
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
sys.path.insert(1, sys.path[0] + "/../watch")
import autopsies
import job
import monitoring
import outside
from test_watch_metrics import get, samples, url_of, value

RANKS = 4


def full_disk():
    where = tempfile.mkdtemp(prefix="ranktrace-full-")
    job.dirs.append(where)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", where], capture_output=True).returncode:
        job.skip("no tmpfs can be mounted")
    return where


def wait(what, until, timeout=60):
    end = time.monotonic() + timeout
    while not until():
        job.check(time.monotonic() < end, what())
        time.sleep(0.1)


def entered(url):
    return value(samples(get(url)[2]), "ranktrace_collectives_total") or 0


def goes_on(a, where, rank):
    nats, nobody = monitoring.free_port(), monitoring.free_port()
    s = outside.Session(a, "watch", "--metrics", "0", "--nats", f"nats://127.0.0.1:{nats}", "-o", f"{where}/full.rtr",
                        "-o", f"{a.dir}/findings.jsonl")
    url = url_of(s)
    job.disk_fill(where)
    notify = monitoring.Notify(f"{a.dir}/findings.jsonl", nobody, "--warning-after", "1")
    f = s.wait(60, kind="hang", phase="open", ranks=[rank])
    job.check(f, f"rank {rank} is not named: {s.findings}\n{s.stderr()}")
    wait(lambda: f"notify says nothing: {notify.said()}", lambda: notify.said().count("it is tried again") == 5)
    job.check(s.wait(60, kind="hang", phase="close", ranks=[rank]), f"its end is not seen: {s.findings}")
    wait(lambda: f"the disk is not full: {s.stderr()}", lambda: "full.rtr: No space left on device" in s.stderr())
    before = entered(url)
    wait(lambda: f"no collective is counted any more: {before}", lambda: entered(url) > before + 20)
    print(f"  rank {rank} was named, its end seen, collectives counted: {before:.0f} and on")
    job.check("the bus does not take reports" in s.stderr(), f"NATS is not away: {s.stderr()}")
    job.check(s.process.poll() is None and notify.process.poll() is None, f"it ended: {s.stderr()}")
    notify.kill()
    s.kill()


job.need_root()
rng, _ = job.seed()
rank, where = rng.randrange(RANKS), full_disk()
try:
    with autopsies.Autopsy(["--ranks", RANKS, "--steps", 100000, "--step-ms", 60, "--seed", rng.randrange(1 << 30),
                            "--fault", f"hang:rank={rank},step=200,sec=12"]) as a:
        goes_on(a, where, rank)
finally:
    subprocess.run(["umount", "-l", where])
