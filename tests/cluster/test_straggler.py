# SPDX-License-Identifier: Apache-2.0
"""Three hosts with a rank each: no node can compare its rank with another. One rank (drawn) becomes slower in the
middle of the job; each node sees that the job goes slower and probes its rank, and the hub names the slow one by how
long operations last, on whatever clocks. The long run alone: what a job is used to is learnt in a minute."""
import os
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import cluster
import job

RANKS, STEP, PERCENT, BEFORE_S, NAMED_S = 3, 250, 60, 120, 90


def main():
    cluster.need()
    if os.environ.get("LONG") != "1":
        job.skip("two minutes: with LONG=1")
    rng, seed = job.seed()
    rank = rng.randrange(RANKS)
    fault = f"slow:rank={rank},step={STEP},percent={PERCENT}"
    with cluster.Cluster(RANKS, ("--seed", seed, "--step-ms", 120, "--fault", fault), raises=True) as c:
        c.wait_owner()
        cluster.wait("the fault begins", lambda: job.lines(c.faults), BEFORE_S)
        job.blame(not [i for i in c.incidents if i["severity"] != "info"], f"a healthy job: {c.incidents}")
        begin = time.monotonic()
        f = c.wait_incident(kind="straggler", phase="open", timeout=NAMED_S)
        job.check(f["ranks"] == [rank] and f["host"] == c.host_name(rank), f)
        print(f"  rank {rank} on {f['host']} named after {time.monotonic() - begin:.1f} s: {f['summary']}")
        time.sleep(10)
        named = {tuple(i["ranks"]) for i in c.incidents if i["kind"] == "straggler"}
        job.blame(named == {(rank,)}, f"others too: {named}\n{c.words()}")


main()
