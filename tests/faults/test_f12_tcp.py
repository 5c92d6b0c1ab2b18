# SPDX-License-Identifier: Apache-2.0
"""F12 over TCP: on one host's link packets are lost (also beside others' traffic), or late, or few, or none go over it;
the host is named within 15 s, by its address, and no rank, and a hang that comes of it is its consequence. A rank that
is killed is a dead process and no link. One of them, drawn, with how bad it is, the victim, the job's shape and the
tier; TRIALS of them; with LONG=1 all. In `make test` one that takes 20 s."""
import os
import signal
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import tcp_links
from net_hosts import Hosts

NAMES = sorted(tcp_links.CAUSES) + ["killed"]


def pid_of(j, rank):
    return next(o["pid"] for o in reversed(job.lines(j.ops_log)) if o["rank"] == rank)


def killed(t):
    """From outside, at any moment."""
    with Hosts(t.ranks) as hosts:
        j = t.start(hosts, "--linger-sec", 60)
        t.begun(j)
        time.sleep(t.rng.uniform(0, 1))
        begin = time.monotonic()
        os.kill(pid_of(j, t.victim), signal.SIGKILL)
        f = j.wait_finding(tcp_links.BAR_S, kind="hang", phase="open")
        job.check(f, f"the death is not reported: {j.findings}\n{j.stderr()}")
        late = f["t_ns"] / 1e9 - begin
        print(f"  {f['class']} of {f['ranks']} reported after {late:.1f} s")
        time.sleep(8)
        j.stop()
    ranks, links = tcp_links.blamed(j)
    job.blame(not links, f"a link is blamed for a death: {j.findings}")
    job.blame({r for f in ranks for r in f["ranks"]} == {t.victim}, f"not rank {t.victim} alone: {ranks}")
    job.check({f["class"] for f in ranks if f["kind"] == "hang"} == {"process_dead"}, f"{ranks}")
    job.check(late < tcp_links.BAR_S, f"reported after {late:.1f} s")
    j.check_replay()
    job.result("tcp_killed", late)


def one(t):
    killed(t) if t.name == "killed" else tcp_links.one_fault(t)


def main():
    tcp_links.need_links()
    rng, number = job.seed()
    if job.LONG and "TRIALS" not in os.environ:
        for name in NAMES:
            one(tcp_links.Trial(rng, number, [name]))
    elif "TRIALS" not in os.environ:
        one(tcp_links.Trial(rng, number, ["delay", "killed", "loss", "rate"], shape="short", ranks=tcp_links.RANKS))
    else:
        for _ in range(int(os.environ["TRIALS"])):
            one(tcp_links.Trial(rng, number, NAMES))


main()
