# SPDX-License-Identifier: Apache-2.0
"""The README's two commands for many hosts, as they stand there, with the distribution's nats-server: a server and a
hub on one host, an agent on each of two others, and a rank that sleeps is named. Put in are SERVER, an empty /var/lib,
and which rank an agent watches: other tests' jobs run on this machine. The rank is drawn."""
import os
import re
import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import cluster
import job

RANKS = 2
COMMANDS = re.search(r"with a NATS server.*?```\n(nats-server .*?)\n(ranktrace watch .*?)\n```",
                     open("README.md").read(), re.S)
PATH = f"{os.path.abspath(job.O)}:{os.environ['PATH']}"


class AsWritten(cluster.Cluster):
    def server_start(self, i=0):
        """The first command starts it."""

    def hub_start(self, i):
        words = f"mount -t tmpfs none /var/lib && PATH={PATH}; {COMMANDS[1]}"
        return cluster.Process(self, "server_and_hub",
                               ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "sh", "-c", words])

    def agent_words(self, i):
        command = COMMANDS[2].partition("#")[0].replace("SERVER", self.hosts.address(self.ranks))
        return ["sh", "-c", f"PATH={PATH}; exec {command} --pid {self.pids[i]}"]


def main():
    cluster.need()
    job.check(COMMANDS, "the README has no such commands")
    cluster.PORT = int(re.search(r"-p (\d+)", COMMANDS[1])[1])
    rng, seed = job.seed()
    rank = rng.randrange(RANKS)
    with AsWritten(RANKS, ("--seed", seed, "--fault", f"hang:rank={rank},step=200")) as c:
        f = c.wait_incident(kind="hang", phase="open", timeout=90)
        job.check(f["ranks"] == [rank] and f["host"] == c.host_name(rank), f)


main()
