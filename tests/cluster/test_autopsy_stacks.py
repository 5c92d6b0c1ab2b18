# SPDX-License-Identifier: Apache-2.0
"""An autopsy over NATS of a healthy job with more ranks on one host than a round of stacks reads: the main thread's
stack of each is in it."""
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import cluster
import job

RANKS, READ_MOST = 12, 16
STEP_MS, STEPS = 400, 2000
BEGUN_S = 20  # what is read as a job begins is not in a window of 15 s any more
TRIES = 3  # a rank whose thread runs as it is read has no stack, and a busy host may be late
ROW = re.compile(r"^ +(\d+) +\d+ \S+ +\d+  \S+ +(\S+)", re.M)  # rank, and the word behind its thread's state


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Host:
    """A server, a hub, an agent and a job, on this host."""

    def __init__(self, rng):
        self.dir = tempfile.mkdtemp(prefix="ranktrace-autopsy-stacks-")
        job.dirs.append(self.dir)
        job.jobs.append(self)
        self.name, self.processes = f"autopsy-stacks-{os.getpid()}", []
        port = free_port()
        self.url = f"nats://127.0.0.1:{port}"
        self.start("nats-server", "-js", "-sd", f"{self.dir}/js", "-a", "127.0.0.1", "-p", port)
        time.sleep(1)
        self.start(job.RANKTRACE, "hub", "--nats", self.url)
        cluster.wait("a hub makes the streams", lambda: "follows the reports" in self.words("hub"))
        self.start(job.RANKTRACE, "watch", "--json", "--nats", self.url, f"--flight={self.dir}/flight", "--phases=no",
                   "--no-raise", "--job", self.name)
        self.ops = f"{self.dir}/ops.jsonl"
        self.start(job.RANKTRACE, "sim", "job", "--ranks", RANKS, "--step-ms", STEP_MS, "--steps", STEPS, "-q",
                   "--poll-hz", 5, "--no-dataloader", "--job-id", self.name, "--log", self.ops, "--seed",
                   rng.randrange(1 << 30))
        cluster.wait("every rank begins", lambda: len(self.ranks()) == RANKS, cluster.READY_S)

    def start(self, *argv):
        name = argv[1] if argv[0] == job.RANKTRACE else argv[0]
        with open(f"{self.dir}/{name}.out", "w") as out, open(f"{self.dir}/{name}.err", "w") as err:
            self.processes.append(subprocess.Popen(list(map(str, argv)), stdout=out, stderr=err,
                                                   env=dict(os.environ, RANKTRACE_RUN_DIR=f"{self.dir}/run")))

    def words(self, name):
        with open(f"{self.dir}/{name}.err") as f:
            return f.read()

    def ranks(self):
        return {o["rank"] for o in job.lines(self.ops)}

    def autopsy(self):
        """Rank -> is it said where it is? The communicators are next."""
        out = subprocess.run([job.RANKTRACE, "autopsy", "--job", self.name, "--nats", self.url], capture_output=True,
                             text=True, timeout=90)
        job.check(out.returncode in (0, 1), f"exit {out.returncode}: {out.stderr}")
        return {int(rank): not at.startswith("0x") for rank, at in ROW.findall(out.stdout)}, out.stdout

    def kill(self):
        for p in reversed(self.processes):
            p.terminate()
            try:
                p.wait(10)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()


def main():
    cluster.need()
    rng, _ = job.seed()
    host, best = Host(rng), 0
    time.sleep(BEGUN_S)
    for _ in range(TRIES):
        places, text = host.autopsy()
        job.check(set(places) == set(range(RANKS)), f"not all ranks are in it:\n{text}")
        best = max(best, sum(places.values()))
        print(f"  stacks of {best} of {RANKS} ranks", flush=True)
        if best >= RANKS - 1:
            break
    job.check(best >= RANKS - 1, f"stacks of {best} of {RANKS} ranks:\n{text}\n{host.words('watch')}")


main()
