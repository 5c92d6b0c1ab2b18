# SPDX-License-Identifier: Apache-2.0
# runs alone: it judges what a hub costs
"""A real nats-server and a hub with the reports of 1,280 agents, each by a connection of its own: 10,240 ranks, 200
collectives a second and rank. What the hub costs, how it goes through ten times as many for some seconds, and how long
it takes to one incident when all ranks wait for one and every node says so. With LONG=1; HOSTS=n asks for another
number of hosts, of which 16 are a replica, TIMES=n for another burst."""
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.path.abspath(__file__)) + "/../aid"]
import job
import reports

HOSTS = int(os.environ.get("HOSTS", 1280))
WARM_S, STEADY_S, BURST_S, AFTER_S = 15, 30, 4, 10
TIMES = int(os.environ.get("TIMES", 10))
CPU_S, RSS_MIB, NODE_BYTES, OPEN_S = 1.0, 1024, 20000, 5.0  # the bars: of the hub for a second; of a node; to open
SLOTS, LATEST_S = 10, 60


def ticks(pid):
    with open(f"/proc/{pid}/stat") as f:
        at = f.read().rsplit(")", 1)[1].split()
    return (int(at[11]) + int(at[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM")) / 1024


def port_free():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Agents:
    """All of them, in this process."""

    def __init__(self, port):
        self.hosts = [reports.Host(i, "load", HOSTS) for i in range(HOSTS)]
        self.sockets = [self.connect(port) for _ in self.hosts]
        self.calls, self.bytes, self.hung_at, self.culprit = 0, 0, None, None

    @staticmethod
    def connect(port):
        for _ in range(100):
            try:
                s = socket.create_connection(("127.0.0.1", port))
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        s.recv(4096)
        s.sendall(b'CONNECT {"verbose":false}\r\n')
        return s

    def send(self, h, s, tails, thread, finding, now_ns):
        data = h.report(now_ns, tails, thread, finding)
        s.sendall(b"PUB ranktrace.report.%s %d\r\n%s\r\n" % (h.name.encode(), len(data), data))
        self.bytes += len(data)

    def second(self, times=1):
        """A report of each, spread over it; behind `hung_at` all wait for one rank, and all say so."""
        begin = time.monotonic()
        since = 0 if self.hung_at is None else int((begin - self.hung_at) * 1e9)
        self.calls += 0 if self.hung_at is not None else 50
        tail, thread = reports.counters(self.calls, since), reports.state(self.hung_at is not None, since)
        late = [reports.counters(self.calls - (k == 0), since) for k in range(reports.COMMS)]
        finding = b"" if self.hung_at is None else self.finding(since)
        for slot in range(SLOTS):
            for i in range(slot, HOSTS, SLOTS):
                tails = [tail] * 8
                if self.hung_at is not None and i == self.culprit // 8:
                    tails[self.culprit % 8] = late
                for _ in range(times):
                    self.send(self.hosts[i], self.sockets[i], tails, thread, finding, time.monotonic_ns())
            time.sleep(max(0.0, begin + (slot + 1) / SLOTS - time.monotonic()))
        return time.monotonic() - begin

    def seconds(self, n, times=1):
        return max(self.second(times) for _ in range(n))

    @staticmethod
    def finding(since):
        return reports.text(14, reports.text(1, "x") + reports.text(2, "hang") + reports.text(3, "unknown") +
                            reports.text(5, "critical") + reports.number(10, since))


class Hub:
    def __init__(self, folder, port):
        url = f"nats://127.0.0.1:{port}"
        self.log = open(f"{folder}/hub.log", "w+")
        self.process = subprocess.Popen([job.RANKTRACE, "hub", "--nats", url], stderr=self.log)
        self.wait("follows the reports")
        self.follower = subprocess.Popen([job.RANKTRACE, "incidents", "--follow", "--json", "--nats", url],
                                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.incidents = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.follower.stdout:
            self.incidents.append((time.monotonic(), json.loads(line)))

    def wait(self, said):
        end = time.monotonic() + 60
        while said not in self.words():
            job.check(time.monotonic() < end, f"the hub does not say '{said}': {self.words()}")
            time.sleep(0.1)

    def words(self):
        with open(self.log.name) as f:
            return f.read()

    def opened(self):
        return [(at, i) for at, i in self.incidents if i["phase"] == "open" and not i["caused_by"]]


def steady(agents, hub):
    agents.seconds(WARM_S)
    before, sent, begin = ticks(hub.process.pid), agents.bytes, time.monotonic()
    longest = agents.seconds(STEADY_S)
    used, node = ticks(hub.process.pid) - before, (agents.bytes - sent) / STEADY_S / HOSTS
    print(f"  steady, {time.monotonic() - begin:.0f} s: hub {used:.1f} s of CPU time, "
          f"{peak_mib(hub.process.pid):.0f} MiB, {node:.0f} bytes a second and node; a second took {longest:.1f} s at "
          f"most", flush=True)
    job.check(not hub.opened(), f"a healthy job: {hub.opened()}")
    return node


def cost(hub):
    """CPU time for a second of the cluster, by what it has taken: on a busy machine it may be behind."""
    used = ticks(hub.process.pid)
    hub.process.terminate()
    hub.process.wait(60)
    taken = int(re.search(r"([0-9]+) reports of", hub.words())[1])
    carried = re.search(r"in place of ([0-9]+)", hub.words())
    print(f"  the hub took {taken} reports ({carried[1] if carried else 0} carried by newer ones) in {used:.1f} s of "
          "CPU time", flush=True)
    return used * HOSTS / taken


def burst(agents, hub):
    before, begin = ticks(hub.process.pid), time.monotonic()
    agents.seconds(BURST_S, TIMES)
    sent = time.monotonic() - begin
    agents.seconds(AFTER_S)
    print(f"  {TIMES} times as many for {BURST_S} s (sent in {sent:.1f} s): "
          f"{ticks(hub.process.pid) - before:.1f} s of CPU time in {time.monotonic() - begin:.0f} s", flush=True)
    job.check(not hub.opened(), f"a healthy job in a burst: {hub.opened()}")


def alarm(agents, hub, culprit):
    agents.culprit, agents.hung_at = culprit, time.monotonic()
    agents.calls += 1  # that one does not come to
    while not hub.opened() and time.monotonic() < agents.hung_at + LATEST_S:
        agents.second()
    took = hub.opened()[0][0] - agents.hung_at if hub.opened() else None
    agents.seconds(5)
    roots = [i for _, i in hub.opened()]
    job.check(len(roots) == 1 and roots[0]["kind"] == "hang" and roots[0]["ranks"] == [culprit],
              f"not one incident of rank {culprit}: {roots}\n{hub.words()}")
    print(f"  all wait for rank {culprit}: one incident after {took:.1f} s", flush=True)
    return took


def run(folder, rng):
    port = port_free()
    server = subprocess.Popen(["nats-server", "-js", "-a", "127.0.0.1", "-p", str(port), "-sd", f"{folder}/js", "-l",
                               f"{folder}/nats.log"])
    hub = None
    try:
        hub = Hub(folder, port)
        agents = Agents(port)
        node = steady(agents, hub)
        burst(agents, hub)
        took = alarm(agents, hub, rng.randrange(HOSTS * 8))
        rss, cpu_s = peak_mib(hub.process.pid), cost(hub)
        print(f"  hub: {cpu_s:.2f} s of CPU time for a second, {rss:.0f} MiB; "
              f"server {ticks(server.pid):.0f} s of CPU time, "
              f"{peak_mib(server.pid):.0f} MiB", flush=True)
        job.check(cpu_s <= CPU_S and rss <= RSS_MIB and node <= NODE_BYTES and took <= OPEN_S,
                  f"hub {cpu_s:.2f} s for a second, {rss:.0f} MiB; "
                  f"{node:.0f} bytes a node; {took:.1f} s to the incident")
    finally:
        for p in filter(None, (hub and hub.follower, hub and hub.process, server)):
            p.terminate()
            p.wait(20)


def main():
    if not job.LONG:
        job.skip("with LONG=1: it takes two minutes and two cores")
    if not shutil.which("nats-server"):
        job.skip("nats-server is missing (package nats-server)")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    rng, _ = job.seed()
    with tempfile.TemporaryDirectory(prefix="ranktrace-load-") as folder:
        run(folder, rng)


main()
