# SPDX-License-Identifier: Apache-2.0
"""A job of four hosts (network namespaces on a switch, net_hosts.py) whose collectives go over TCP, and what is told of their links."""
import os
import shutil
import time

import job
from net_hosts import Hosts, has_netem

RANKS = 4
BAR_S = 15
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
                if of_tcp(f) and f["phase"] == "open" and f["cause"] in causes:
                    return f
        time.sleep(0.1)
    return None


def blamed(j):
    """Ranks that anything names, and causes of links."""
    return ([f for f in j.findings if f["ranks"]], {f["cause"] for f in j.findings if f["kind"] == "link"})


def of_tcp(f):
    """What NCCL's proxies say of the same link (slow_link) is a consequence of this."""
    return f["kind"] == "link" and f["evidence"].get("transport") == "tcp"


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
        j = job.Job(sim_args(number, hosts), ["--tier", tier], name="tcp")
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
        for g in [g for g in j.findings if of_tcp(g) and g["phase"] == "open"]:
            check_place(g, hosts, victim)
        job.check(any(g["evidence"].get("address") == hosts.address(victim) for g in j.findings), f"{name}: the host is not told: {j.findings}")
        job.check(j.stop() == 1, "exit code is not 1")
    ranks, links = blamed(j)
    job.check(not ranks, f"{name}: ranks are blamed: {ranks}")
    job.check({g["cause"] for g in j.findings if of_tcp(g)} <= causes, f"{name}: told as {links}")
    for g in j.roots():
        job.check(of_tcp(g), f"{name}: not a consequence of the link: {g}")
    hangs = [g for g in j.findings if g["kind"] == "hang"]
    job.check(hangs or name not in ("down", "blackhole"), f"{name}: the hang is not told")
    j.check_replay()
    job.result(f"tcp_{name}", late)


def need_links():
    job.need_root()
    if not shutil.which("ip"):
        job.skip("ip is missing (package iproute2)")
    if not os.path.exists("/dev/net/tun") and not has_netem():
        job.skip("neither /dev/net/tun nor sch_netem, and with them no links of one's own")


def sim_args(number, hosts, *more):
    return ["--ranks", RANKS, "--steps", 200000, "--step-ms", 20, "--seed", number, "--net=tcp", "--netns", hosts.prefix, *more]
