# SPDX-License-Identifier: Apache-2.0
"""A job of hosts (network namespaces on a switch, net_hosts.py) whose collectives go over TCP, and what is reported of
their links."""
import os
import shutil
import subprocess
import sys
import time

import job
from net_hosts import Hosts, has_netem

RANKS = 4
BAR_S = 15
BESIDE = 2.5e6  # bytes a second: the job itself moves 1.2 MB at the most, the links all that comes
# step, bytes of a slice, slices that a rank sends in a step (tools/simjob: 5 collectives, 2 channels, 2 slices to each
# other rank)
SHAPES = {
    "short": (20, 256, 60),     # most of the time something is under way
    "long": (1000, 16384, 60),  # hardly ever
    "tiny": (1000, 256, 60),    # and of few bytes: acknowledgements are late by themselves
}
CAUSES = {  # the causes that say what the link does
    "loss": {"retransmits"},
    "beside": {"retransmits"},  # lost, while others make most of the traffic and fill nothing
    "delay": {"slow_path"},
    "rate": {"slow_path", "retransmits"},  # the queue in front of the link is not endless
    "down": {"netdev_down", "stalled"},
    "blackhole": {"stalled"},  # carrier on both sides, and nothing arrives
}


FLOOD = """
import socket, sys, threading, time
kind, to = sys.argv[1:3]
if kind == "tcp" and to == "here":
    s = socket.create_server(("", 7777))
    while True:
        c = s.accept()[0]
        threading.Thread(target=lambda: [None for _ in iter(lambda: c.recv(1 << 16), b"")], daemon=True).start()
if kind == "tcp":
    c = socket.create_connection((to, 7777))
    while True:
        c.sendall(bytes(1 << 16))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if to == "here":
    s.bind(("", 7777))
    while True:
        s.recv(2048)
rate, begin, sent = float(sys.argv[3]), time.monotonic(), 0
while True:
    while sent < rate * (time.monotonic() - begin):
        s.sendto(bytes(1400), (to, 7777))
        sent += 1400
    time.sleep(0.002)
"""


def others_start(hosts, kind, source, sink, flows, bytes_per_s):
    """Traffic that is no rank's: TCP as much as goes through, UDP at a rate."""
    def one(host, *words):
        return hosts.start(host, sys.executable, "-c", FLOOD, kind, *words, stderr=subprocess.DEVNULL)
    others = [one(sink, "here")]
    time.sleep(1)
    return others + [one(source, hosts.address(sink), str(bytes_per_s)) for _ in range(flows)]


def others_end(others):
    for p in others:
        p.kill()
        p.wait()


def fault_draw(name, shape, rng):
    """What host.link() is reported."""
    step_ms, slice_bytes, slices = SHAPES[shape]
    if name in ("loss", "beside"):
        return dict(loss=round(rng.uniform(0.02, 0.1), 3))
    if name == "delay":
        return dict(delay=round(rng.uniform(0.05, 0.2), 3))
    if name == "rate":  # of what a healthy job needs: with headers
        return dict(rate=round(max(4000, rng.uniform(0.05, 0.3) * slices * (slice_bytes + 66) * 1000 / step_ms)))
    return dict(up=False) if name == "down" else dict(loss=1.0)


class Trial:
    """What is drawn; a variable of its name chooses instead."""

    def __init__(self, rng, number, names, shape=None, tier=None, ranks=None):
        def chosen(key, values):
            value = rng.choice(values)
            return os.environ.get(key) or value
        self.rng, self.number = rng, number
        self.name = chosen("ONLY", names)
        self.shape = shape or chosen("SHAPE", sorted(SHAPES))
        self.tier = tier or chosen("TIER", ["trace", "watch"])
        self.ranks = ranks or int(chosen("RANKS", [RANKS, RANKS, RANKS, 2]))
        self.victim = rng.randrange(self.ranks)
        print(f"{self.name} at host {self.victim} of {self.ranks}, shape {self.shape}, tier {self.tier}", flush=True)

    def start(self, hosts, *more):
        step_ms, slice_bytes, _ = SHAPES[self.shape]
        os.environ["SIM_NCCL_SLICE_BYTES"] = str(slice_bytes)
        return job.Job(["--ranks", self.ranks, "--steps", 200000, "--step-ms", step_ms, "--seed", self.number,
                        "--net=tcp",
                        "--netns", hosts.prefix, *more], ["--tier", self.tier], name="tcp")

    def begun(self, j):
        """The job runs, and was sampled for long enough to know how it is when it is well."""
        end = time.monotonic() + 60
        while time.monotonic() < end and len(job.lines(j.ops_log)) < 10 * self.ranks:
            time.sleep(0.2)
        time.sleep(16 if self.shape != "short" or self.ranks < 3 or self.name == "beside" else 5)
        job.blame(not [f for f in j.opened() if f["kind"] == "link" or f["ranks"]], f"healthy: {j.opened()}")


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
    """True: the host itself. Between two hosts, or before its other paths show it, the path is all that can be said."""
    e, here = f["evidence"], hosts.address(victim)
    job.check(f["ranks"] == [] and e["transport"] == "tcp" and e["remedy"], f"{f}")
    job.blame(e.get("address") == here or here in (e.get("address_a"), e.get("address_b")), f"not at {here}: {f}")
    return e.get("address") == here


def reported(t, j, hosts, begin):
    """The first finding about the link, in time, at its place."""
    f = wait_link(j, CAUSES[t.name], BAR_S)
    ranks, _ = blamed(j)
    job.blame(not ranks, f"{t.name}: ranks are blamed: {ranks}")
    job.check(f, f"{t.name}: no link is reported: {j.findings}\n{j.stderr()}")
    late = f["t_ns"] / 1e9 - begin
    exact = check_place(f, hosts, t.victim)
    print(f"  {f['cause']} of {'the host' if exact else 'a path of it'} reported after {late:.1f} s")
    job.check(late < BAR_S, f"{t.name}: reported after {late:.1f} s")
    return late


def check_all(t, j, hosts):
    ranks, links = blamed(j)
    job.blame(not ranks, f"{t.name}: ranks are blamed: {ranks}")
    exact = [check_place(g, hosts, t.victim) for g in j.findings if of_tcp(g) and g["phase"] == "open"]
    job.check(any(exact) or t.ranks == 2, f"{t.name}: the host is not reported: {j.findings}")
    job.check({g["cause"] for g in j.findings if of_tcp(g)} <= CAUSES[t.name], f"{t.name}: reported as {links}")
    for g in j.roots():  # the job may have stopped and gone on before enough was lost to say why
        early = g["kind"] == "hang" and g["phase"] == "close" and not g["ranks"]
        job.check(of_tcp(g) or early, f"{t.name}: not a consequence of the link: {g}")
    hangs = [g for g in j.findings if g["kind"] == "hang"]
    job.check(hangs or t.name not in ("down", "blackhole"), f"{t.name}: the hang is not reported")


def one_fault(t):
    how = fault_draw(t.name, t.shape, t.rng)
    print(f"  {how}", flush=True)
    with Hosts(t.ranks + (t.name == "beside")) as hosts:
        others = others_start(hosts, "udp", t.victim, t.ranks, 1, BESIDE) if t.name == "beside" else []
        j = t.start(hosts)
        t.begun(j)
        begin = time.monotonic()
        hosts.link(t.victim, **how)
        late = reported(t, j, hosts, begin)
        time.sleep(14 if t.name in ("down", "blackhole") else 4)  # and the hang that comes of it
        job.check(j.stop() == 1, "exit code is not 1")
        others_end(others)
        check_all(t, j, hosts)
    j.check_replay()
    job.result(f"tcp_{t.name}", late)


def need_links():
    job.need_root()
    if not shutil.which("ip"):
        job.skip("ip is missing (package iproute2)")
    if not os.path.exists("/dev/net/tun") and not has_netem():
        job.skip("neither /dev/net/tun nor sch_netem, and with them no links of one's own")
