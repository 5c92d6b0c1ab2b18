# SPDX-License-Identifier: Apache-2.0
"""F12 over TCP: on one host's link packets are lost, or late, or few, or none go over it; the host is named within 15 s, by its address,
and no rank, and a hang that comes of it is its consequence. A rank that is killed is a dead process and no link. One of them, drawn,
with the victim and the tier; TRIALS of them; with LONG=1 all."""
import os
import time

import job
import tcp_links
from net_hosts import Hosts


def killed(victim, number, tier):
    print(f"rank {victim} is killed, tier {tier}", flush=True)
    with Hosts(tcp_links.RANKS) as hosts:
        j = job.Job(tcp_links.sim_args(number, hosts, "--fault", f"kill:rank={victim},step=300"), ["--tier", tier], name="tcp")
        job.check(j.wait_finding(90, kind="hang", phase="open"), f"the death is not told: {j.findings}")
        time.sleep(10)
        j.stop()
    ranks, links = tcp_links.blamed(j)
    job.check(not links, f"a link is blamed for a death: {j.findings}")
    job.check({r for f in ranks for r in f["ranks"]} == {victim}, f"{ranks}")
    job.check({f["class"] for f in ranks if f["kind"] == "hang"} == {"process_dead"}, f"{ranks}")


def main():
    tcp_links.need_links()
    rng, number = job.seed()
    names = sorted(tcp_links.FAULTS) + ["killed"]
    if job.LONG and "TRIALS" not in os.environ:
        drawn = [(name, tier) for name in names for tier in ("trace", "watch")]
    else:
        drawn = [(os.environ.get("ONLY") or rng.choice(names), os.environ.get("TIER") or rng.choice(["trace", "watch"]))
                 for _ in range(int(os.environ.get("TRIALS", "1")))]
    for name, tier in drawn:
        victim = rng.randrange(tcp_links.RANKS)
        if name == "killed":
            killed(victim, number, tier)
        else:
            tcp_links.one_fault(name, victim, number, tier)


main()
