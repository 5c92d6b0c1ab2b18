# SPDX-License-Identifier: Apache-2.0
"""A cluster on this machine: hosts that are network namespaces on one switch, a simulated job with a rank on each, an
agent on each, and on one more host a real nats-server and hubs. What incidents there are is read as people read them:
ranktrace incidents --follow --json."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import job
import tcp_links
from net_hosts import Hosts

PORT = 4222
READY_S = 60


def need():
    tcp_links.need_links()
    if not shutil.which("nats-server"):
        job.skip("nats-server is missing (package nats-server)")


def wait(what, until, timeout=30.0):
    """What `until` returns, once it is true."""
    end = time.monotonic() + timeout
    while not (found := until()):
        job.check(time.monotonic() < end, what() if callable(what) else f"{what}: not within {timeout} s")
        time.sleep(0.05)
    return found


class Process:
    """One of ours, with its words in a file."""

    def __init__(self, cluster, name, argv, stdout=subprocess.DEVNULL):
        self.name, self.log = name, f"{cluster.dir}/{name}.log"
        self.file = open(self.log, "a")
        self.process = cluster.start(argv, stdout=stdout, stderr=self.file, text=True)
        cluster.processes.append(self)

    def said(self, text):
        with open(self.log) as f:
            return text in f.read()

    def said_last(self, text, other):
        """It did, and not the other since."""
        with open(self.log) as f:
            words = f.read()
        return words.rfind(text) > words.rfind(other)

    def send(self, number):
        self.process.send_signal(number)

    def end(self, number=signal.SIGTERM, timeout=20):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(number)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            job.fail(f"{self.name} did not end: {open(self.log).read()}")


class Cluster:
    """ranks hosts with a rank and an agent each; the last host of the switch is the server's and the hubs'."""

    def __init__(self, ranks, sim_args=(), hubs=1, config="", client=(), servers=1):
        self.dir = tempfile.mkdtemp(prefix="ranktrace-cluster-")
        job.dirs.append(self.dir)
        self.ranks, self.client, self.processes, self.incidents = ranks, list(client), [], []
        self.config = config
        self.hosts = Hosts(ranks + 1)
        self.url = ",".join(f"nats://{self.hosts.address(ranks)}:{PORT + i}" for i in range(servers))
        self.at = self.hosts.names[ranks]
        try:
            self.servers = [None] * servers
            for i in range(servers):
                self.server_start(i)
            self.hubs = [self.hub_start(i) for i in range(hubs)]
            wait("a hub makes the streams", lambda: any(h.said("follows the reports") for h in self.hubs))
            self.follower = Process(self, "incidents", self.ours("incidents", "--follow", "--json", "--all"),
                                    stdout=subprocess.PIPE)
            threading.Thread(target=self.read, daemon=True).start()
            self.job_start(sim_args)
            self.agents = [self.agent_start(i) for i in range(ranks)]
        except BaseException:
            self.close()
            raise

    # --- parts ---

    def start(self, argv, host=None, **more):
        return subprocess.Popen(["ip", "netns", "exec", host or self.at, *map(str, argv)], **more)

    def ours(self, *words):
        return [job.RANKTRACE, *words[:1], "--nats", self.url, *self.client, *words[1:]]

    def run(self, *words, code=0):
        """What a command prints."""
        done = self.start(self.ours(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, err = done.communicate(timeout=60)
        job.check(done.returncode == code, f"{words}: exit {done.returncode}: {err}")
        return out

    def server_start(self, i=0):
        """The i-th one, anew with what it has on its disk."""
        folder, address, n = f"{self.dir}/server{i}", self.hosts.address(self.ranks), len(self.servers)
        os.makedirs(folder, exist_ok=True)
        config = f"listen: {address}:{PORT + i}\njetstream {{ store_dir: \"{folder}/js\" }}\n{self.config}"
        if n > 1:
            others = ", ".join(f"\"nats://{address}:{PORT + 2000 + k}\"" for k in range(n))
            config += (f"http: \"{address}:{PORT + 4000 + i}\"\nserver_name: server{i}\ncluster {{ name: ranktrace, "
                       f"listen: {address}:{PORT + 2000 + i}, routes: [{others}] }}\n")
        with open(f"{folder}/nats.conf", "w") as f:
            f.write(config)
        self.servers[i] = Process(self, f"nats{i}", ["nats-server", "-c", f"{folder}/nats.conf"])

    def hub_start(self, i):
        return Process(self, f"hub{i}", self.ours("hub"))

    def job_start(self, sim_args):
        self.ops, self.faults = f"{self.dir}/ops.jsonl", f"{self.dir}/faults.jsonl"
        argv = [job.RANKTRACE, "sim", "job", "-q", "--ranks", self.ranks, "--steps", 10**6, "--net=tcp", "--netns",
                self.hosts.prefix, "--log", self.ops, "--fault-log", self.faults, *sim_args]
        os.environ["NCCL_SOCKET_IFNAME"] = "eth0"
        self.sim = subprocess.Popen([*map(str, argv)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.pids = wait("every rank begins", self.ranks_begun, READY_S)

    def ranks_begun(self):
        pids = {o["rank"]: o["pid"] for o in job.lines(self.ops)}
        return pids if len(pids) == self.ranks else None

    def bus_cut(self, i, cut):
        """Host i and the servers lose each other; the job's ranks do not."""
        subprocess.run(["ip", "-n", self.hosts.names[i], "route", "add" if cut else "del", "blackhole",
                        f"{self.hosts.address(self.ranks)}/32"], check=True)

    def reports_server(self):
        """The server that has the stream of reports in its memory, as all that know of it say."""
        def leaders():
            found = set()
            for i, s in enumerate(self.servers):
                if s.process.poll() is None:
                    found |= self.leader_by(i)
            return found if len(found) == 1 else None
        return int(wait(self.servers_words, leaders, 120).pop()[len("server"):])

    def servers_words(self):
        words = [f"{s.name}: {self.streams_by(i)}" for i, s in enumerate(self.servers) if s.process.poll() is None]
        return "no server, or several, have the reports:\n" + "\n".join(words)

    def streams_by(self, i):
        url = f"http://{self.hosts.address(self.ranks)}:{PORT + 4000 + i}/jsz?streams=1"
        code = f"import urllib.request as u; print(u.urlopen({url!r}, timeout=5).read().decode())"
        out, _ = self.start([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            text=True).communicate(timeout=20)
        accounts = json.loads(out).get("account_details", []) if out.strip() else []
        return [s for a in accounts for s in a.get("stream_detail", [])]

    def leader_by(self, i):
        return {s["cluster"]["leader"] for s in self.streams_by(i)
                if s["name"] == "RANKTRACE_REPORTS" and s.get("cluster", {}).get("leader")}

    def host_name(self, i):
        return f"node-{i}"

    def agent_options(self, _i):
        return ["--no-raise", "--flight=no", "--phases=no"]

    def agent_words(self, i):
        return self.ours("watch", "--pid", str(self.pids[i]), *self.agent_options(i))

    def agent_start(self, i):
        words = ["unshare", "--uts", "sh", "-c", f"hostname {self.host_name(i)} && exec \"$@\"", "sh",
                 *self.agent_words(i)]
        at, self.at = self.at, self.hosts.names[i]
        try:
            return Process(self, f"agent{i}", words)
        finally:
            self.at = at

    def append(self, entry):
        """An entry in the job's log of incidents, by no hub: the client protocol is a few words."""
        data, token = json.dumps(entry), f"simjob-{self.sim.pid}"
        code = ("import socket, sys\n"
                f"s = socket.create_connection(({self.hosts.address(self.ranks)!r}, {PORT}))\n"
                "s.recv(65536)\n"
                f"data = {data!r}\n"
                f"s.sendall(f'CONNECT {{{{\"verbose\":true}}}}\\r\\nPUB ranktrace.incident.{token} {{len(data)}}\\r\\n"
                "{data}\\r\\nPING\\r\\n'.encode())\n"
                "f = s.makefile()\n"
                "sys.exit(any(w.startswith('-ERR') for w in iter(f.readline, 'PONG\\n')))\n")
        job.check(self.start([sys.executable, "-c", code]).wait(20) == 0, "the entry is refused")

    # --- what comes out ---

    def read(self):
        for line in self.follower.process.stdout:
            self.incidents.append(json.loads(line))

    def words(self):
        text = "\n".join(json.dumps(i) for i in self.incidents[-8:])
        ours = [p for p in self.processes if not p.name.startswith("nats")]
        return text + "".join(f"\n{p.name}: {open(p.log).read()[-1500:]}" for p in ours)

    def owner(self):
        """The hub that has the job: by its last word."""
        for h in self.hubs:
            with open(h.log) as f:
                said = [line for line in f if "this hub has it" in line or "standby" in line]
            if h.process.poll() is None and said and "this hub has it" in said[-1]:
                return h
        return None

    def wait_owner(self, timeout=30):
        return wait(lambda: f"no hub has the job: {self.words()}", self.owner, timeout)

    def wait_incident(self, timeout=30, **fields):
        def match():
            return next((i for i in self.incidents if all(i.get(k) == v for k, v in fields.items())), None)
        return wait(lambda: f"no incident with {fields} within {timeout} s\n{self.words()}", match, timeout)

    def last(self):
        """The last word on each incident."""
        return {i["id"]: i for i in self.incidents}

    def check_one(self, kind, rank):
        """One root, of that kind and rank; opened once, closed at most once."""
        roots = [i for i in self.last().values() if not i["caused_by"] and i["kind"] == kind]
        job.check(len(roots) == 1 and roots[0]["ranks"] == [rank], f"not one {kind} of rank {rank}:\n{self.words()}")
        of = [i["phase"] for i in self.incidents if i["id"] == roots[0]["id"]]
        job.check(of.count("open") == 1 and of.count("close") <= 1, f"{of}")
        others = [i for i in self.last().values() if i["kind"] == "hang" and i["ranks"] != [rank]]
        job.blame(not others, f"beside rank {rank}: {others}")
        return roots[0]

    def stop_rank(self, rank):
        os.kill(self.pids[rank], signal.SIGSTOP)

    def continue_rank(self, rank):
        os.kill(self.pids[rank], signal.SIGCONT)

    def close(self):
        for rank in getattr(self, "pids", {}).values():
            try:
                os.kill(rank, signal.SIGCONT)
            except ProcessLookupError:
                pass
        if hasattr(self, "sim"):
            self.sim.terminate()
            try:
                self.sim.wait(10)
            except subprocess.TimeoutExpired:
                self.sim.kill()
        for p in reversed(self.processes):
            if p.process.poll() is None:
                p.process.send_signal(signal.SIGCONT)
                p.process.terminate()
        for p in self.processes:
            try:
                p.process.wait(10)
            except subprocess.TimeoutExpired:
                p.process.kill()
                p.process.wait()
        self.hosts.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
