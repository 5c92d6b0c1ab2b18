# SPDX-License-Identifier: Apache-2.0
"""What a node finds by itself is in the cluster's incidents: a rank (drawn) of three, each on a host of its own, blocks
in the kernel. Its node knows that, and where; the hub knows that the others wait for it: two incidents of one event,
the hang a consequence of the blocked task."""
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import cluster
import job

RANKS, STEP = 3, 150


def main():
    cluster.need()
    rng, seed = job.seed()
    rank = rng.randrange(RANKS)
    with cluster.Cluster(RANKS, ("--seed", seed, "--fault", f"dstate:rank={rank},step={STEP},sec=14")) as c:
        c.wait_owner()
        blocked = c.wait_incident(kind="d_state", phase="open", timeout=90)
        job.check(blocked["ranks"] == [rank] and blocked["host"] == c.host_name(rank), blocked)
        job.check(blocked["evidence"].get("syscall") and blocked["evidence"].get("wchan"), blocked["evidence"])
        job.check(blocked["severity"] == "critical" and blocked["caused_by"] is None, blocked)
        hang = cluster.wait(lambda: f"no hang\n{c.words()}",
                            lambda: [i for i in c.incidents if i["kind"] == "hang" and i["caused_by"]])[-1]
        job.check(hang["ranks"] == [rank] and hang["caused_by"] == blocked["id"], f"{hang}\n{blocked}")
        job.check(hang["class"] == "host_blocked", hang)
        c.wait_incident(id=blocked["id"], phase="close", timeout=40)
        time.sleep(2)
        named = {tuple(i["ranks"]) for i in c.incidents if i["ranks"] and i["kind"] != "unobserved"}
        job.blame(named == {(rank,)}, f"others too: {named}\n{c.words()}")


main()
