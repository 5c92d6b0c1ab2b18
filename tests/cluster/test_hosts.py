# SPDX-License-Identifier: Apache-2.0
"""Two and four hosts (network namespaces), an agent on each, a simulated job over TCP: what makes ranks on other hosts
slow is named by the hub. The link of one host loses segments: one root, at that host's address, or the path where there
are two hosts, and no rank is named. Then the host of one rank takes longer over each step, where agents see calls: that
rank is the straggler, and no other one is. Which host is drawn. With LONG=1: both take minutes."""
import os
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import cluster
import job
import tcp_links

LINK_S, SLOW_S = 60, 150
WELL_S = 20  # a path is known by how it was


class Probed(cluster.Cluster):
    def agent_options(self, _i):
        return ["--flight=no", "--phases=no"]


def blamed(c, kinds=("hang", "straggler", "mismatch")):
    return [i for i in c.last().values() if i["kind"] in kinds and i["ranks"]]


def is_at(f, address):
    return address in (f["subject"].get("address"), *f["subject"].get("addresses", ()))


def link(c, host, fault):
    time.sleep(WELL_S)
    job.blame(not [i for i in c.incidents if i["kind"] == "link" or i["ranks"]], f"healthy: {c.incidents}")
    begin = time.monotonic()
    c.hosts.link(host, **fault)
    f = c.wait_incident(kind="link", phase="open", caused_by=None, timeout=LINK_S)
    took, address = time.monotonic() - begin, c.hosts.address(host)
    time.sleep(5)
    job.check(is_at(f, address) and (c.ranks == 2 or f["subject"]["type"] == "port"), f"not {address}: {f}")
    roots = {i["id"] for i in c.last().values() if i["kind"] == "link" and not i["caused_by"]}
    job.check(roots == {f["id"]}, f"not one root: {c.words()}")
    job.blame(not blamed(c), f"a link, and a rank is named: {c.words()}")
    print(f"  {c.ranks} hosts, {fault} at {address}: '{f['summary']}' after {took:.1f} s", flush=True)


def slow(c, rank):
    c.run("ctl", "set", "tier=trace")
    f = c.wait_incident(kind="straggler", phase="open", timeout=SLOW_S)
    time.sleep(5)
    job.check(f["ranks"] == [rank] and f["host"] == c.host_name(rank), f)
    job.blame(all(i["ranks"] == [rank] for i in blamed(c)), f"not rank {rank} alone: {c.words()}")
    print(f"  {c.ranks} hosts: '{f['summary']}'", flush=True)


def main():
    cluster.need()
    if not job.LONG:
        job.skip("with LONG=1: it takes minutes")
    rng, seed = job.seed()
    step_ms, slice_bytes, _ = tcp_links.SHAPES["long"]
    for hosts in (2, 4):
        os.environ["SIM_NCCL_SLICE_BYTES"] = str(slice_bytes)
        with cluster.Cluster(hosts, ("--seed", seed, "--step-ms", step_ms)) as c:
            c.wait_owner()
            link(c, rng.randrange(hosts), tcp_links.fault_draw("loss", "long", rng))
        del os.environ["SIM_NCCL_SLICE_BYTES"]
        rank = rng.randrange(hosts)
        with Probed(hosts, ("--seed", seed, "--fault", f"slow-host:rank={rank},step=400,ms=60")) as c:
            c.wait_owner()
            slow(c, rank)


main()
