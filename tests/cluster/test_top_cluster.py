#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ranktrace top of a cluster, in tmux at 80 x 24 and 200 x 60: a real nats-server, a hub, and the simulated agents of
256 ranks (10,240 with LONG=1) of which one is stopped. Its host comes first, its row is opened; what is acknowledged
is so for all; jobs of other names are not seen; a server that goes is said, and the picture stays."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
sys.path.insert(1, sys.path[0] + "/../operate")
import job
import terminal
from terminal import Terminal

RANKS = int(os.environ.get("RANKS", 10240 if job.LONG else 256))
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    PORT = free.getsockname()[1]
SILENT_AFTER_S = 5  # HOSTS_SILENT_NS
URL = f"nats://127.0.0.1:{PORT}"


class Parts:
    """Processes of ours, ended in the other order."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="ranktrace-top-cluster-")
        job.dirs.append(self.dir)
        self.all = []

    def start(self, name, *argv):
        log = open(f"{self.dir}/{name}", "w")
        p = subprocess.Popen(list(map(str, argv)), stdout=log, stderr=log)
        self.all.append(p)
        return p

    def said(self, name):
        return open(f"{self.dir}/{name}").read()

    def wait_said(self, name, pattern, timeout=60):
        end = time.monotonic() + timeout
        while not (found := re.search(pattern, self.said(name))):
            job.check(time.monotonic() < end, f"{name} does not say '{pattern}': {self.said(name)}")
            time.sleep(0.1)
        return found

    def close(self):
        for p in reversed(self.all):
            p.terminate()
            p.wait()


def server(p):
    with open(f"{p.dir}/nats.conf", "w") as f:
        f.write(f"listen: 127.0.0.1:{PORT}\njetstream {{ store_dir: \"{p.dir}/js\" }}\n")
    return p.start("nats", "nats-server", "-c", f"{p.dir}/nats.conf")


def ours(*words):
    done = subprocess.run([job.RANKTRACE, *words[:1], "--nats", URL, *words[1:]], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def looked_at(p):
    """From its first report to the finding in hand; the screens are what people see."""
    t = Terminal(80, 24, job.RANKTRACE, "top", "--nats", URL)
    t.wait(rf"^{RANKS} ranks: ", 120)
    fault = json.loads(p.wait_said("sim", r"\{.*\}", 180).group())
    rank, host = fault["rank"], f"node{fault['rank'] // 8:05d}"
    t.wait(rf"^CRITICAL hang +rank {rank} is stopped", 120)
    screen = t.wait(rf"^{host} +8 +- +\d+ +.* hang$")
    job.check(all(len(line) <= 80 for line in screen.splitlines()), screen)
    job.check(re.search(r"^\d+ ranks: 1 stopped ", screen, re.M), screen)
    t.keys("Enter")
    t.wait(rf"^ *{rank} stopped .* hang$")
    t.wait(r"^1/8 ")
    t.size(200, 60)
    t.wait(rf"^ *{rank} {host} +\d+ stopped .*llm-10k")
    t.keys("Enter")
    t.wait(rf"^ rank {rank}, pid \d+, host {host}, job llm-10k")
    t.keys("t")
    t.wait("not from here: ranktrace ctl set tier=trace")
    t.keys("a")
    t.wait(rf"hub-llm-10k-\S+: acknowledged", 120)
    t.size(80, 24)
    t.keys("Escape", "Escape", "Escape")
    t.wait(rf"^{host} +8 ")
    t.keys("4")
    t.wait(rf"critical +(open|update) +job llm-10k, host {host}:\s+rank\s+{rank}\b", 120)
    t.keys("1")
    code, out, err = ours("incidents")
    job.check(code == 0 and "acknowledged" in out, f"not in hand for others: {out} {err}")
    return t, host


def printed(host):
    code, out, err = ours("top", "--batch", "--job", "llm-10k")
    job.check(code == 0 and re.search(rf"^ *\d+ {host} +\d+ stopped .*hang: ", out, re.M), f"{code} {out[:3000]} {err}")
    code, out, err = ours("top", "--batch", "--job", "another")
    job.check(code == 0 and "0 ranks" in out, f"{code} {out} {err}")


def stays(t, screen):
    """After a cut no rank becomes silent, however long it lasts. Agents of 10,240 ranks on two cores may have been late
    before it."""
    time.sleep(SILENT_AFTER_S + 1)
    before, after = (re.search(r"^\d+ ranks: .*", s, re.M).group() for s in (screen, t.screen()))
    job.check(before == after, f"the picture changes while nothing is read: {before}; {after}")
    job.check("silent" not in after or RANKS > 256, f"of a cut no rank is silent: {after}")


def main():
    job.need_root()
    terminal.need()
    if not shutil.which("nats-server"):
        job.skip("nats-server is missing (package nats-server)")
    p = Parts()
    try:
        nats = server(p)
        p.start("hub", job.RANKTRACE, "hub", "--nats", URL)
        time.sleep(1)
        p.start("sim", job.RANKTRACE, "sim", "cluster", "--nats", URL, "-n", RANKS, "--pp", 2 if RANKS < 512 else 16,
                "--micro", 4, "-f", "stop", "--warm", 6, "--watch", 1000)
        t, host = looked_at(p)
        printed(host)
        nats.terminate()
        screen = t.wait(r"^ranktrace top +cluster: NO CONNECTION")
        job.check(re.search(rf"^{host} +8 ", screen, re.M), f"the host is no longer shown: {screen}")
        stays(t, screen)
        t.end()
    finally:
        p.close()
    code, _, err = ours("top", "--batch", "run.rtr")
    job.check(code == 2 and "--nats shows a cluster" in err, f"{code} {err}")
    print(f"  {RANKS} ranks of a cluster: the one that is stopped, its host, both sizes, acknowledged, a cut")


main()
