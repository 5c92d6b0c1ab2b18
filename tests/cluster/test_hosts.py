# SPDX-License-Identifier: Apache-2.0
"""Two and four hosts (network namespaces), an agent on each, a simulated job over TCP: what makes ranks on other hosts
slow is named by the hub. The link of one host loses segments: one root, at that host's address, or the path where there
are two hosts, and no rank is named. Which host is drawn. With LONG=1: it takes minutes."""
import os
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import cluster
import job
import tcp_links

LINK_S = 60
WELL_S = 20  # a path is known by how it was


def blamed(c):
    return [i for i in c.last().values() if i["kind"] in ("hang", "straggler", "mismatch") and i["ranks"]]


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


def main():
    cluster.need()
    if not job.LONG:
        job.skip("with LONG=1: it takes minutes")
    rng, seed = job.seed()
    step_ms, slice_bytes, _ = tcp_links.SHAPES["long"]
    os.environ["SIM_NCCL_SLICE_BYTES"] = str(slice_bytes)
    for hosts in (2, 4):
        with cluster.Cluster(hosts, ("--seed", seed, "--step-ms", step_ms)) as c:
            c.wait_owner()
            link(c, rng.randrange(hosts), tcp_links.fault_draw("loss", "long", rng))


main()
