# SPDX-License-Identifier: Apache-2.0
"""Three nats-servers, three hosts with an agent each, two hubs. What ordinary days bring to such a cluster, one after
the other, and each time a rank is stopped meanwhile, or has been: one server is killed, or the one that has the
reports; all three are, by kill -9, and start again; the hub that has the job is killed, or stopped past its lease and
continued; an agent is killed; a host is cut off from the bus. No incident is lost or there twice, none names a wrong
root, and what agents kept meanwhile arrives. The rank, the server and (in the long run, 100 rounds) the order are
drawn."""
import os
import signal
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import cluster
import job

RANKS = 3
LONG = os.environ.get("LONG") == "1"
OPEN_S, CLOSE_S = (180, 180) if LONG else (60, 60)  # that it comes, however busy the machine is
CUT_S, LEASE_S = (60, 10) if LONG else (8, 8)
ROUNDS = int(os.environ.get("ROUNDS", "100" if LONG else "0"))


class Round:
    """One fault of the cluster, and one of the job in it."""

    def __init__(self, c, rng):
        self.c, self.rng, self.rank = c, rng, rng.randrange(RANKS)
        self.n = len(c.incidents)

    def rank_stops(self):
        self.c.stop_rank(self.rank)

    def opened(self):
        """A hang; where it was stopped in the midst of an operation, it is stopped and nothing more is known."""
        f = cluster.wait(lambda: f"nothing of rank {self.rank}\n{self.c.words()}", lambda: self.roots()[:1], OPEN_S)[0]
        job.check(f["phase"] == "open" and f["ranks"] == [self.rank] and "stopped" in (f["class"], f["kind"]),
                  f"not rank {self.rank} but {f}\n{self.c.words()}")
        job.check(f["host"] == self.c.host_name(self.rank), f)
        return f

    def roots(self):
        return [i for i in self.c.incidents[self.n:] if i["kind"] in ("hang", "stopped") and not i["caused_by"]]

    def closed(self, f):
        self.c.continue_rank(self.rank)
        cluster.wait(lambda: f"{f['id']} is still open\n{self.c.words()}",
                     lambda: any(i["phase"] == "close" and i["id"] == f["id"] for i in self.roots()), CLOSE_S)

    def check(self):
        """One root, opened and closed once, and no other one of any rank."""
        ids = {i["id"] for i in self.roots() if i["class"] != "unknown"}
        job.check(len(ids) == 1, f"not one: {ids}\n{self.c.words()}")
        phases = [i["phase"] for i in self.roots() if i["id"] in ids]
        job.check(phases.count("open") == phases.count("close") == 1, f"{phases}\n{self.c.words()}")
        job.blame(all(i["ranks"] in ([self.rank], []) for i in self.roots()), f"a false root\n{self.c.words()}")
        time.sleep(self.rng.uniform(0, 2))

    def life(self):
        """The rank is stopped, reported, continued."""
        self.rank_stops()
        self.closed(self.opened())

    def others(self):
        """Its host's agent is not touched: without it nothing could be known of the rank."""
        return [r for r in range(RANKS) if r != self.rank]


def servers_kill(c, which):
    for i in which:
        c.servers[i].end(signal.SIGKILL)


def one_server(r, reports=False):
    """One that has the reports takes longer: another one has to have them first."""
    has = r.c.reports_server()
    i = has if reports else r.rng.choice([k for k in range(3) if k != has])
    servers_kill(r.c, [i])
    r.life()
    r.c.server_start(i)


def reports_server(r):
    one_server(r, reports=True)


def all_servers(r):
    servers_kill(r.c, range(3))
    r.rank_stops()
    time.sleep(2)
    for i in range(3):
        r.c.server_start(i)
    r.closed(r.opened())
    for a in r.c.agents:
        cluster.wait(lambda a=a: f"{a.name}: its spool is not delivered\n{r.c.words()}",
                     lambda a=a: a.said_last("the bus takes reports again", "the bus does not take reports"))


def owner_killed(r):
    r.rank_stops()
    f, owner = r.opened(), r.c.wait_owner()
    owner.end(signal.SIGKILL)
    r.c.hubs.remove(owner)
    r.c.hubs.append(r.c.hub_start(len(r.c.processes)))
    r.c.wait_owner(40)
    r.closed(f)


def owner_stopped(r):
    owner = r.c.wait_owner()
    owner.send(signal.SIGSTOP)
    r.life()
    owner.send(signal.SIGCONT)
    time.sleep(3)


def agent_killed(r):
    i = r.rng.choice(r.others())
    r.c.agents[i].end(signal.SIGKILL)
    time.sleep(LEASE_S)
    r.c.agents[i] = r.c.agent_start(i)
    r.life()


def host_cut(r):
    i = r.rng.choice(r.others())
    r.c.bus_cut(i, True)
    time.sleep(CUT_S)
    r.c.bus_cut(i, False)
    cluster.wait(lambda: f"agent{i}: its spool is not delivered\n{r.c.words()}",
                 lambda: r.c.agents[i].said_last("the bus takes reports again", "the bus does not take reports"))
    r.life()


FAULTS = (one_server, reports_server, all_servers, owner_killed, owner_stopped, agent_killed, host_cut)
SHORT = (one_server, all_servers)


def main():
    cluster.need()
    rng, seed = job.seed()
    with cluster.Cluster(RANKS, ("--seed", seed), hubs=2, servers=3) as c:
        c.wait_owner()
        time.sleep(3)
        job.blame(not c.incidents, f"a healthy job: {c.incidents}")
        for fault in [rng.choice(FAULTS) for _ in range(ROUNDS)] or SHORT:
            r, begin = Round(c, rng), time.monotonic()
            fault(r)
            r.check()
            print(f"  {fault.__name__}, rank {r.rank}: {time.monotonic() - begin:.1f} s", flush=True)


main()
