# SPDX-License-Identifier: Apache-2.0
"""A job whose ranks have an RDMA device open, by a made /sys, under record and under watch: while its ports are well
there is silence; a link that goes down, comes up again, and loses packets is reported within seconds, with its device
and who uses it, and no rank is blamed; a port of nobody's is an observation. A replay says the same."""
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import job
import outside
import ports

RANKS = 4
USED, UNUSED = 1, 2  # devices


def of_ports(findings):
    return [f for f in findings if f["kind"] == "link" or f["evidence"].get("device")]


def check_port(f, device, users):
    job.check(f["ranks"] == [] and f["evidence"]["device"] == f"mlx5_{device}" and f["evidence"]["port"] == 1, f"{f}")
    job.check(f["evidence"]["netdev"] == f"eth{device}" and f["evidence"]["remedy"], f"{f}")
    job.check(sorted(f["evidence"].get("ranks_using", "").split(",")) == users, f"{f}")


def reported(s, wait, cause, begin, **more):
    f = wait(30, cause=cause, phase="open", **more)
    job.check(f, f"{cause} is not reported: {s.findings}\n{s.stderr()}")
    late = f["t_ns"] / 1e9 - begin
    print(f"  {f['kind']}/{cause} reported after {late:.1f} s")
    return f, late


def session(s, wait, stop, tree):
    users = [str(r) for r in range(RANKS)]
    time.sleep(6)
    job.check(not of_ports(s.findings), f"healthy ports: {s.findings}")
    tree.put(UNUSED, "state", "1: DOWN")
    f, _ = reported(s, wait, "port_down", time.monotonic(), kind="observation")
    check_port(f, UNUSED, [""])
    tree.put(USED, "state", "1: DOWN")
    begin = time.monotonic()
    f, late = reported(s, wait, "port_down", begin, kind="link")
    job.check(late < 5, f"reported after {late} s")
    check_port(f, USED, users)
    tree.put(USED, "state", "4: ACTIVE")
    f, _ = reported(s, wait, "flap", time.monotonic(), kind="link")
    check_port(f, USED, users)
    time.sleep(3)
    tree.more[USED, "hw_counters/out_of_sequence"] = 500
    f, lossy = reported(s, wait, "retransmits", time.monotonic(), kind="link")
    check_port(f, USED, users)
    job.check(lossy < 15, f"reported after {lossy} s")
    tree.more.clear()
    tree.put(UNUSED, "state", "4: ACTIVE")
    job.check(stop() == 1, "exit code is not 1")
    roots = {(f["kind"], f["cause"]) for f in s.findings
             if f["kind"] not in ("observation", "lost_events", "slow_step")}
    job.check(roots == {("link", "port_down"), ("link", "flap"), ("link", "retransmits")}, f"{roots}")
    return late


job.need_root()
rng, number = job.seed()
tree = ports.Ports(4, [0, USED])
sim = ["--ranks", RANKS, "--steps", 20000, "--step-ms", 100, "--seed", number]
j = job.Job(sim, ["--tier", "watch"], name="link")
j.wait_begun()
late = session(j, j.wait_finding, j.stop, tree)
j.check_replay()
with autopsies.Autopsy(sim) as a:
    while len(job.lines(a.ops_log)) < 10 * RANKS:
        time.sleep(0.2)
    s = outside.Session(a, "watch", "--no-raise")
    session(s, s.wait, s.stop, tree)
job.result("link_down", late)
