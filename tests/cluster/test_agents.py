# SPDX-License-Identifier: Apache-2.0
"""What becomes of hosts that the hub does not hear: an agent that is killed leaves its rank unobserved and names no
root, and comes back as it was; a host whose network is cut is unobserved, its peers wait for nobody's fault, and what
its agent kept meanwhile arrives in order when the network is back. A rank that sleeps (injected, its place drawn) is
then named by its host, from counters alone."""
import signal
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import cluster
import job

RANKS, CUT_S = 3, 12


def roots(c):
    return [i for i in c.last().values() if i["kind"] in ("hang", "straggler", "mismatch") and i["ranks"]
            and i["class"] != "unknown"]


def agent_killed(c, rank):
    c.agents[rank].end(signal.SIGKILL)
    f = c.wait_incident(kind="unobserved", phase="open")
    job.check(f["ranks"] == [rank], f)
    time.sleep(5)
    job.blame(not roots(c), f"an agent is gone, and somebody is named: {roots(c)}")
    c.agents[rank] = c.agent_start(rank)
    c.wait_incident(kind="unobserved", phase="close")


def network_cut(c, rank):
    c.hosts.link(rank, up=False)
    time.sleep(CUT_S)
    job.blame(not roots(c), f"a host is cut off, and somebody is named: {roots(c)}\n{c.words()}")
    c.hosts.link(rank, up=True)
    cluster.wait(lambda: f"the spool does not arrive\n{c.words()}",
                 lambda: c.agents[rank].said("the bus takes reports again"), 40)


def main():
    cluster.need()
    rng, seed = job.seed()
    rank = rng.randrange(RANKS)
    with cluster.Cluster(RANKS, ("--seed", seed)) as c:
        c.wait_owner()
        agent_killed(c, rank)
        network_cut(c, (rank + 1) % RANKS)
    culprit = rng.randrange(RANKS)
    with cluster.Cluster(RANKS, ("--seed", seed, "--fault", f"hang:rank={culprit},step=400")) as c:
        f = c.wait_incident(kind="hang", phase="open", timeout=90)
        job.check(f["ranks"] == [culprit] and f["class"] == "missing_enter", f)
        job.check(f["host"] == c.host_name(culprit) and f["cause"] == "asleep", f)
        time.sleep(5)
        c.check_one("hang", culprit)
        print(f"  rank {culprit} asleep on {f['host']}: {f['detected_after_s']} s after the first peer waited")


main()
