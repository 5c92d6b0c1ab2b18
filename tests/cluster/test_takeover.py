# SPDX-License-Identifier: Apache-2.0
"""Three hosts, an agent on each, two hubs, a real nats-server: a rank that is stopped is named by the hub, once, over
hosts. The hub that has the job is killed while it is: the other one goes on with the same incident, and closes it. Then
the same with a hub that is stopped past its lease, and continued: what it writes is refused, and nothing is there
twice. And another writer in the job's log, though the lease is not its own: the server refuses what the hub that has
it appends, which reads what is new, and goes on behind it. The rank is drawn."""
import json
import signal
import sys
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import cluster
import job

RANKS, OPEN_S = 3, 20
STOPPED = ("hang", "stopped")  # in the midst of an operation it is stopped, and that others wait is not known


def opened(c, rank, n):
    """The incident of the n-th time that this rank was stopped."""
    c.stop_rank(rank)
    f = cluster.wait(lambda: f"no hang of rank {rank}\n{c.words()}",
                     lambda: next((i for i in c.incidents[n:] if i["kind"] in STOPPED and i["phase"] == "open"), None),
                     OPEN_S)
    job.check(f["ranks"] == [rank] and "stopped" in (f["kind"], f["class"]) and f["host"] == c.host_name(rank), f)
    print(f"  rank {rank} on {f['host']}: {f['detected_after_s']} s after the first peer waited", flush=True)
    return f


def closed(c, rank, f):
    c.continue_rank(rank)
    c.wait_incident(id=f["id"], phase="close")


def marked(c, f):
    """Somebody has it in hand, which all see; then it is silenced, and shown only to who asks for all."""
    end = f["id"][-8:]
    c.run("incidents", "ack", end, "--note", "swapping its cable")
    shown = [json.loads(line) for line in c.run("incidents", "--json").splitlines()]
    mine = [i for i in shown if i["id"] == f["id"]]
    job.check(len(mine) == 1 and mine[0]["acknowledged"]["note"] == "swapping its cable", shown)
    job.check("swapping its cable" in c.run("incidents"), c.run("incidents"))
    c.run("incidents", "silence", end, "--for", "10m")
    job.check(f["id"] not in c.run("incidents"), "it is silenced")
    job.check("silenced until" in c.run("incidents", "--all"), c.run("incidents", "--all"))
    c.run("incidents", "silence", end, "--for", "0")
    job.check(f["id"] in c.run("incidents"), "the silence is over")
    job.check(c.run("incidents", "ack", "no-such-one", code=2) == "", "no such incident")


def killed(c, rank):
    f = opened(c, rank, 0)
    marked(c, f)
    first = c.owner()
    first.end(signal.SIGKILL)
    begin = time.monotonic()
    second = c.wait_owner()
    print(f"  {second.name} took over after {time.monotonic() - begin:.1f} s", flush=True)
    job.check(second is not first, "the same hub")
    closed(c, rank, f)
    c.check_one(f["kind"], rank)
    c.hubs = [second, c.hub_start(2)]


def stopped(c, rank):
    n = len(c.incidents)
    f = opened(c, rank, n)
    first = c.owner()
    first.send(signal.SIGSTOP)
    second = cluster.wait(lambda: f"no takeover\n{c.words()}",
                          lambda: next((h for h in c.hubs if h is not first and h.said("this hub has it")), None))
    closed(c, rank, f)
    first.send(signal.SIGCONT)
    cluster.wait(lambda: f"{first.name} does not see that it lost the job\n{c.words()}",
                 lambda: first.said("this one is a standby now"))
    time.sleep(3)
    job.check(c.owner() is second, f"not {second.name}\n{c.words()}")
    check_hangs(c, 2)


def check_hangs(c, n):
    """So many, each a root, opened and closed once."""
    hangs = {i["id"] for i in c.incidents if i["kind"] in STOPPED and not i["caused_by"]}
    job.check(len(hangs) == n, f"not {n} hangs: {hangs}\n{c.words()}")
    for one in hangs:
        phases = [i["phase"] for i in c.incidents if i["id"] == one]
        job.check(phases.count("open") == phases.count("close") == 1, f"{one}: {phases}\n{c.words()}")
        job.check(not c.last()[one]["caused_by"], c.last()[one])


def overtaken(c, rank):
    n, owner = len(c.incidents), c.owner()
    c.append({"v": 1, "hub": "another", "n": 1, "takes_over": True})
    c.stop_rank(rank)
    cluster.wait(lambda: f"no write was refused\n{c.words()}",
                 lambda: owner.said("what it wrote into the log of incidents was refused"))
    job.check(not c.incidents[n:], f"and it is there: {c.incidents[n:]}")
    f = cluster.wait(lambda: f"no hub wrote it later\n{c.words()}", lambda: c.incidents[n:])[0]
    job.check(f["phase"] == "open" and f["ranks"] == [rank], f)
    closed(c, rank, f)
    check_hangs(c, 3)


def main():
    cluster.need()
    rng, seed = job.seed()
    rank = rng.randrange(RANKS)
    with cluster.Cluster(RANKS, ("--seed", seed), hubs=2) as c:
        c.wait_owner()
        time.sleep(5)
        job.blame(not c.incidents, f"a healthy job: {c.incidents}")
        killed(c, rank)
        stopped(c, rank)
        overtaken(c, rank)


main()
