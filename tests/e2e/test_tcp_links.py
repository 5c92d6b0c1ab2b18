# SPDX-License-Identifier: Apache-2.0
"""A job of four hosts (network namespaces on a switch) whose collectives go over TCP: on one host's link packets are lost, or late, or
few, or none go over it; the host is named within 15 s, by its address, and no rank. A rank that is killed is a dead process and no
link. Traffic of others that fills a link is nobody's fault. Short: two faults, drawn; with LONG=1 all, and the cause in both tiers."""
import os
import sys
import time

import job
from net_hosts import Hosts

RANKS = 4
BAR_S = 15
HOLDS_UP = ("hang", "straggler", "stopped", "d_state", "mismatch", "cpu_starved")
FAULTS = {  # what the link does; the causes that say so
    "loss": (dict(loss=0.05), {"retransmits"}),
    "delay": (dict(delay=0.1), {"slow_path"}),
    "rate": (dict(rate=20000), {"slow_path"}),
    "down": (dict(up=False), {"netdev_down", "stalled"}),
    "blackhole": (dict(loss=1.0), {"stalled"}),  # carrier on both sides, and nothing arrives
}


def begun(j):
    end = time.monotonic() + 60
    while time.monotonic() < end and len(job.lines(j.ops_log)) < 40 * RANKS:
        time.sleep(0.2)
    time.sleep(4)  # looks of the healthy job
    job.check(not [f for f in j.findings if f["kind"] == "link"], f"healthy links: {j.findings}")


def wait_link(j, causes, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with j.cond:
            for f in j.findings:
                if f["kind"] == "link" and f["phase"] == "open" and f["cause"] in causes:
                    return f
        time.sleep(0.1)
    return None


def blamed(j):
    """Ranks that anything names, and causes of links."""
    return ([f for f in j.findings if f["ranks"]], {f["cause"] for f in j.findings if f["kind"] == "link"})


def check_place(f, hosts, victim):
    e = f["evidence"]
    here = hosts.address(victim)
    job.check(f["ranks"] == [] and e["transport"] == "tcp" and e["remedy"], f"{f}")
    job.check(e.get("address") == here or here in (e.get("address_a"), e.get("address_b")), f"not at {here}: {f}")
    return e.get("address") == here


def one_fault(name, victim, number, tier):
    how, causes = FAULTS[name]
    print(f"{name} at host {victim}, tier {tier}", flush=True)
    with Hosts(RANKS) as hosts:
        sim = ["--ranks", RANKS, "--steps", 200000, "--step-ms", 20, "--seed", number, "--net=tcp", "--netns", hosts.prefix]
        j = job.Job(sim, ["--tier", tier], name="tcp")
        begun(j)
        begin = time.monotonic()
        hosts.link(victim, **how)
        f = wait_link(j, causes, job.bar(BAR_S))
        job.check(f, f"{name}: no link is told: {j.findings}\n{j.stderr()}")
        late = f["t_ns"] / 1e9 - begin
        exact = check_place(f, hosts, victim)
        print(f"  {f['cause']} of {'the host' if exact else 'a path of it'} told after {late:.1f} s")
        job.check(late < job.bar(BAR_S), f"{name}: told after {late:.1f} s")
        time.sleep(14 if name in ("down", "blackhole") else 4)  # and the hang that comes of it
        for g in [g for g in j.findings if g["kind"] == "link" and g["phase"] == "open"]:
            check_place(g, hosts, victim)
        job.check(any(g["evidence"].get("address") == hosts.address(victim) for g in j.findings), f"{name}: the host is not told: {j.findings}")
        job.check(j.stop() == 1, "exit code is not 1")
    ranks, links = blamed(j)
    job.check(not ranks, f"{name}: ranks are blamed: {ranks}")
    job.check(links <= causes, f"{name}: told as {links}")
    for g in j.roots():
        job.check(g["kind"] == "link", f"{name}: not a consequence of the link: {g}")
    hangs = [g for g in j.findings if g["kind"] == "hang"]
    job.check(hangs or name not in ("down", "blackhole"), f"{name}: the hang is not told")
    j.check_replay()
    job.result(f"tcp_{name}", late)


def killed(number, victim):
    print(f"rank {victim} is killed", flush=True)
    with Hosts(RANKS) as hosts:
        sim = ["--ranks", RANKS, "--steps", 200000, "--step-ms", 20, "--seed", number, "--net=tcp", "--netns", hosts.prefix, "--fault",
               f"kill:rank={victim},step=300"]
        j = job.Job(sim, name="tcp")
        job.check(j.wait_finding(90, kind="hang", phase="open"), f"the death is not told: {j.findings}")
        time.sleep(10)
        j.stop()
    ranks, links = blamed(j)
    job.check(not links, f"a link is blamed for a death: {j.findings}")
    job.check({r for f in ranks for r in f["ranks"]} == {victim}, f"{ranks}")
    job.check({f["class"] for f in ranks if f["kind"] == "hang"} == {"process_dead"}, f"{ranks}")


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


def background(number, victim):
    """Others' connections fill the link of one host, which is as wide as all links are, and lose packets by the way."""
    print(f"background traffic from host {victim}", flush=True)
    with Hosts(RANKS) as hosts:
        for i in range(RANKS):
            hosts.link(i, rate=4e6)
        to = (victim + 2) % RANKS  # no neighbour on the ring
        sim = ["--ranks", RANKS, "--steps", 200000, "--step-ms", 20, "--seed", number, "--net=tcp", "--netns", hosts.prefix]
        j = job.Job(sim, name="tcp")
        begun(j)
        others = [hosts.start(to, sys.executable, "-c", FLOOD)]
        time.sleep(1)
        others += [hosts.start(victim, sys.executable, "-c", FLOOD, hosts.address(to)) for _ in range(2)]
        time.sleep(20)
        for p in others:
            p.kill()
            p.wait()
        j.stop()
    ranks, links = blamed(j)
    job.check(not ranks and not links, f"blamed for others' traffic: {j.findings}")
    seen = {f["cause"] for f in j.findings if f["kind"] == "observation"}
    print(f"  observations: {seen}")
    job.check("congestion" in seen, f"the congestion is not told: {j.findings}\n{j.stderr()}")


def main():
    job.need_root()
    if not os.path.exists("/dev/net/tun"):
        job.skip("no /dev/net/tun and with it no links of one's own")
    rng, number = job.seed()
    names = sorted(FAULTS)
    if not job.LONG:
        for name in [os.environ["ONLY"]] if os.environ.get("ONLY") in FAULTS else rng.sample(names, 1):
            one_fault(name, rng.randrange(RANKS), number, rng.choice(["watch", "trace"]))
        return
    for name in names:
        for tier in "trace", "watch":
            one_fault(name, rng.randrange(RANKS), number, tier)
    killed(number, rng.randrange(RANKS))
    background(number, rng.randrange(RANKS))


main()
