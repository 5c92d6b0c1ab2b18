# SPDX-License-Identifier: Apache-2.0
"""F13 over TCP: others' traffic fills the link of one of four hosts. It is told as congestion, and neither a rank nor a link is blamed."""
import os
import subprocess
import sys
import time

import job
import tcp_links
from net_hosts import Hosts

FLOWS = 6  # so many keep the queue in front of the link full
FLOOD = """
import socket, sys, threading
s = socket.create_server(("", 7777)) if len(sys.argv) == 1 else socket.create_connection((sys.argv[1], 7777))
if len(sys.argv) == 1:
    while True:
        c = s.accept()[0]
        threading.Thread(target=lambda: [None for _ in iter(lambda: c.recv(1 << 16), b"")], daemon=True).start()
while True:
    s.send(bytes(1 << 16))
"""


def background(number, victim, tier):
    """Others' connections fill the link of one host. They go to a host that has no rank, as storage does."""
    print(f"background traffic from host {victim}, tier {tier}", flush=True)
    with Hosts(tcp_links.RANKS + 1) as hosts:
        hosts.link(victim, rate=4e6)  # enough for the job
        to = tcp_links.RANKS
        j = job.Job(tcp_links.sim_args(number, hosts), ["--tier", tier], name="tcp")
        tcp_links.begun(j)
        others = [hosts.start(to, sys.executable, "-c", FLOOD, stderr=subprocess.DEVNULL)]
        time.sleep(1)
        others += [hosts.start(victim, sys.executable, "-c", FLOOD, hosts.address(to), stderr=subprocess.DEVNULL) for _ in range(FLOWS)]
        time.sleep(20)
        for p in others:
            p.kill()
            p.wait()
        job.check(j.stop() == 0, "exit code is not 0")
    ranks, links = tcp_links.blamed(j)
    job.check(not ranks and not links, f"blamed for others' traffic: {j.findings}")
    seen = {f["cause"] for f in j.findings if f["kind"] == "observation"}
    print(f"  observations: {seen}")
    job.check("congestion" in seen, f"the congestion is not told: {j.findings}\n{j.stderr()}")


def main():
    tcp_links.need_links()
    if not job.LONG:
        job.skip("45 seconds: with LONG=1")
    rng, number = job.seed()
    background(number, rng.randrange(tcp_links.RANKS), os.environ.get("TIER") or rng.choice(["trace", "watch"]))


main()
