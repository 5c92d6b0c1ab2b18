# SPDX-License-Identifier: Apache-2.0
"""Agents as `ranktrace ctl` sees and sets them: the status of each, limits for all and for one host, a host that is
paused, whose rank is then unobserved and nobody's culprit, and resumed; a value that is not possible and an account
that may not are refused, and nothing changes. One agent starts later, and has what was set before."""
import json
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import cluster
import job

RANKS = 2
ACCOUNTS = """authorization { users: [
  { user: all, password: all },
  { user: reader, password: reader, permissions: { publish: { deny: ["$KV.RANKTRACE_SETTINGS.>"] } } }
] }
no_auth_user: all
"""


def status(c):
    return {s["host"]: s for s in map(json.loads, c.run("ctl", "status", "--json").splitlines())}


def wait_status(c, what, until):
    return cluster.wait(lambda: f"{what}: {status(c)}\n{c.words()}", lambda: until(status(c)), 30)


def limits(c):
    c.run("ctl", "set", "hang-limit=2.5")
    c.run("ctl", "set", "--host", c.host_name(0), "hang-limit=3")
    wait_status(c, "both limits", lambda s: [s[c.host_name(i)]["hang_limit_s"] for i in range(RANKS)] == [3, 2.5])
    job.check(c.run("ctl", "show", "--host", c.host_name(0)) == "hang-limit=3\n", "what is set is shown")
    c.run("ctl", "unset", "--host", c.host_name(0), "hang-limit")
    wait_status(c, "that of all", lambda s: all(one["hang_limit_s"] == 2.5 for one in s.values()))


def refused(c):
    c.run("ctl", "set", "hang-limit=soon", code=2)
    c.run("ctl", "set", "flight=/etc", code=2)
    url, c.url = c.url, c.url.replace("nats://", "nats://reader:reader@")
    c.run("ctl", "set", "hang-limit=9", code=4)
    job.check(len(status(c)) == RANKS, "it may read")
    c.url = url
    job.check(c.run("ctl", "show") == "hang-limit=2.5\n", c.run("ctl", "show"))


def paused(c):
    c.run("ctl", "pause", "--host", c.host_name(1))
    wait_status(c, "paused", lambda s: [s[c.host_name(i)]["state"] for i in range(RANKS)] == ["watches", "paused"])
    f = c.wait_incident(kind="unobserved", phase="open")
    job.check(f["ranks"] == [1], f)
    c.stop_rank(1)
    time.sleep(5)
    c.continue_rank(1)
    roots = [i for i in c.incidents if i["ranks"] and i["kind"] != "unobserved"]
    job.blame(not roots, f"it is paused, and somebody is named: {roots}")
    c.run("ctl", "resume", "--host", c.host_name(1))
    c.wait_incident(kind="unobserved", phase="close")


def main():
    cluster.need()
    rng, seed = job.seed()
    with cluster.Cluster(RANKS, ("--seed", seed), config=ACCOUNTS) as c:
        c.wait_owner()
        wait_status(c, "both agents", lambda s: len(s) == RANKS)
        table = c.run("ctl", "status")
        job.check(all(f"{c.host_name(i)} " in table for i in range(RANKS)) and "watches" in table, table)
        limits(c)
        refused(c)
        i = rng.randrange(RANKS)
        c.agents[i].end()
        c.agents[i] = c.agent_start(i)
        wait_status(c, "one that starts later", lambda s: s[c.host_name(i)]["hang_limit_s"] == 2.5)
        paused(c)


main()
