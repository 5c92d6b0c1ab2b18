# SPDX-License-Identifier: Apache-2.0
"""Prometheus and Alertmanager with the rules and examples of dashboards/ over a simulated job, which `watch`, `record`
and a hub serve, and `ranktrace notify`: rules load, each panel's query returns data, each file is as panels.py has it.
A rank that hangs for 20 s is a warning: it reaches the channel, no pager, and each of notify's webhooks once. A rank
that is stopped pages once on the pager's webhook and each of notify's with its rank within 30 s, again by the schedule,
and ends with a message."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
import urllib.request

sys.path.insert(1, sys.path[0] + "/../aid")
sys.path.insert(1, sys.path[0] + "/../watch")
sys.path.insert(1, sys.path[0] + "/../../dashboards")
import autopsies
import gpus
import job
import monitoring
import outside
import panels
import ports
from test_watch_metrics import url_of

RANKS, AGAIN_S = 4, 20
SLOW_S = 150  # until what the job does at its step 200 was seen, on a machine that gives it a fifth of its pace
STOPPED = ("hang", "stopped")


def files():
    """What needs no job."""
    d = monitoring.DASHBOARDS
    for argv in (["promtool", "check", "rules", f"{d}/rules.yml"], ["promtool", "test", "rules", "rules-test.yml"],
                 [sys.executable, "-B", f"{d}/panels.py", "--check"]):
        out = subprocess.run(argv, cwd=d, capture_output=True, text=True)
        job.check(out.returncode == 0, f"{' '.join(argv)}: {out.stdout}{out.stderr}")


def expression(query):
    """As Grafana sends it, with all jobs and nodes chosen."""
    return query.replace("$__rate_interval", "10s").replace("$train_job", ".*").replace("$node", ".*")


def page_of(url):
    with urllib.request.urlopen(url, timeout=10) as r:
        return r.read().decode()


def panels_have_data(m, hub_url, timeout=SLOW_S):
    missing, end = list(panels.queries()), time.monotonic() + timeout
    n = len(missing)
    while missing and time.monotonic() < end:
        time.sleep(1)
        missing = [q for q in missing if not (m.get("query", query=expression(q[2])) or {}).get("result")]
    job.check(not missing, "no data: " + "; ".join(f"{f} '{t}': {expression(q)}" for f, t, q in missing) +
              f"; the hub's page:\n{page_of(hub_url) if missing else ''}")
    print(f"  {n} panels' queries return data")


def targets_are_up(m):
    data = m.wait(lambda d: sum(t["health"] == "up" for t in d["activeTargets"]) == 3, 40, "targets")
    job.check(data, f"targets: {m.get('targets')}")
    rules = m.get("rules")
    bad = [r["name"] for g in rules["groups"] for r in g["rules"] if r["health"] == "err"]
    job.check(not bad and len(rules["groups"]) == 4, f"rules: {bad}")


def of_rank(path, body, channel, rank, status):
    return path == channel and body["status"] == status and \
        any(a["labels"].get("rank") == str(rank) for a in body["alerts"])


def priorities(hook, channel):
    return {a["labels"]["priority"] for _, path, body in hook.got if path == channel for a in body["alerts"]}


def told(hook, rank, kinds, event):
    """By notify's own format: of the rank's incident."""
    return [g for g in hook.got if g[1] == "/json" and g[2]["event"] == event and
            (g[2]["incident"]["kind"], g[2]["incident"]["ranks"]) in [(k, [rank]) for k in kinds]]


def each_channel_once(hook, id):
    """Each format has as many messages of the incident, which is over, as events there were: none is there twice. They
    are sent at the same time: the last one of a format may come after the last one of another."""
    def of(name):
        return [b for _, p, b in hook.got if p == f"/{name}" and id in json.dumps(b)]

    events = [b["event"] for b in of("json")]
    job.check(events.count("open") == 1 and events.count("resolved") == 1, f"{events}")
    for name in monitoring.Notify.FORMATS:
        hook.wait(lambda *_: len(of(name)) >= len(events), 30)
        job.check(len(of(name)) == len(events), f"{name} has {len(of(name))} messages, events {events}: {of(name)}")
    return events


def warned(s, hook, rank):
    """A stall that ends by itself: the channel and notify's webhooks, at its end too, and no pager."""
    f = s.wait(SLOW_S, kind="hang", phase="open", ranks=[rank])
    job.check(f, f"no hang: {s.findings}")
    job.check(hook.wait(lambda path, body: of_rank(path, body, "/channel", rank, "firing"), 40),
              f"no warning of rank {rank}: {hook.got}")
    job.check(s.wait(60, kind="hang", phase="close", ranks=[rank]), f"the hang does not end: {s.findings}")
    job.check(hook.wait(lambda path, body: path == "/json" and body["id"] == f["id"] and body["event"] == "resolved",
                        40), f"notify does not say that it is over: {hook.got}")
    events = each_channel_once(hook, f["id"])
    job.check(not [g for g in hook.got if g[1] == "/pager"], f"a stall of 20 s pages: {hook.got}")
    job.check(priorities(hook, "/channel") == {"P1"}, f"{hook.got}")
    print(f"  a warning reached the channel, and each of notify's: {events}")


def paged(s, hook, rank, begun):
    """Once, with its rank, by both ways."""
    got = hook.wait(lambda path, body: of_rank(path, body, "/pager", rank, "firing"), 60)
    job.check(got, f"no page: {hook.got}\n{s.findings}")
    print(f"  paged {got[0] - begun:.1f} s after the rank was stopped")
    job.check(got[0] - begun <= job.bar(30), f"{got[0] - begun:.1f} s until the page")
    job.check(hook.wait(lambda path, body: path == "/json" and body["event"] == "again" and
                        body["incident"]["ranks"] == [rank], 60), f"not again: {hook.got}")
    first, again = (told(hook, rank, STOPPED, e)[0] for e in ("open", "again"))
    print(f"  notify told {first[0] - begun:.1f} s after, again {again[0] - first[0]:.1f} s later")
    job.check(first[0] - begun <= job.bar(30) and again[0] - first[0] >= AGAIN_S - 1, f"{first}\n{again}")
    pages = [b for _, p, b in hook.got if p == "/pager" and b["status"] == "firing"]
    named = {a["labels"].get("rank") for b in pages for a in b["alerts"]}
    job.check(len(pages) == 1 and named == {str(rank)}, f"pages: {pages}")
    job.check(priorities(hook, "/pager") == {"P0"}, f"{pages}")
    job.check(any(f["ranks"] == [rank] and f["severity"] == "critical" for f in s.findings), f"{s.findings}")
    return first[2]["id"]


def resolved(hook, rank, id):
    job.check(hook.wait(lambda path, body: of_rank(path, body, "/pager", rank, "resolved"), 60) and
              hook.wait(lambda path, body: path == "/json" and body["id"] == id and body["event"] == "resolved", 60),
              f"no message that it is over: {hook.got}")
    print(f"  {each_channel_once(hook, id)} on each channel")


def session(a, command, *args):
    """Each with files of its own."""
    d = tempfile.mkdtemp(prefix="ranktrace-session-")
    job.dirs.append(d)
    return outside.Session(types.SimpleNamespace(dir=d, process=a.process), command, "--metrics", "0", *args)


class Hub:
    """A hub on a server of its own, on loopback."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="ranktrace-hub-")
        job.dirs.append(self.dir)
        port, self.metrics = monitoring.free_port(), monitoring.free_port()
        self.url = f"nats://127.0.0.1:{port}"
        with open(f"{self.dir}/nats.conf", "w") as f:
            f.write(f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{self.dir}/js" }}\n')
        self.processes = [self.start("nats-server", "-c", f"{self.dir}/nats.conf"),
                          self.start(job.RANKTRACE, "hub", "--nats", self.url, "--metrics", str(self.metrics))]
        job.jobs.append(self)

    def start(self, *argv):
        return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=open(f"{self.dir}/stderr", "a"))

    def kill(self):
        for p in self.processes:
            if p.poll() is None:
                p.kill()
                p.wait()

    def stop(self):
        """What serves its metrics ends with it."""
        self.processes[1].terminate()
        job.check(self.processes[1].wait(20) == 0, open(f"{self.dir}/stderr").read())
        self.kill()
        end = time.monotonic() + 10
        while self.served():
            job.check(time.monotonic() < end, "the server of the hub's metrics is left")
            time.sleep(0.1)

    def served(self):
        with socket.socket() as s:
            return not s.connect_ex(("127.0.0.1", self.metrics))


def scraped(url):
    """Quickly, and little."""
    text, times = page_of(url), []
    for _ in range(20):
        begin = time.monotonic()
        page_of(url)
        times.append(time.monotonic() - begin)
    fastest_ms = min(times) * 1e3  # what it costs; the others waited for a CPU, too
    out = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    job.check(out.returncode == 0 and not out.stderr, f"promtool: {out.stdout}{out.stderr}")
    print(f"  the hub's page: {len(text)} bytes, a scrape {fastest_ms:.1f} ms (longest {max(times) * 1e3:.1f} ms)")
    job.check(len(text) <= 300_000, f"{len(text)} bytes")
    job.check(fastest_ms <= 20, f"a scrape takes {fastest_ms:.1f} ms")


def main():
    job.need_root()
    monitoring.need()
    if not shutil.which("nats-server"):
        job.skip("nats-server is missing (package nats-server)")
    files()
    rng, _ = job.seed()
    gpus.use()
    ports.Ports(2, [0])
    hook, hub = monitoring.Webhook(), Hub()
    rank = rng.randrange(RANKS)
    with autopsies.Autopsy(["--ranks", RANKS, "--steps", 100000, "--step-ms", 60, "--net=tcp", "--torch",
                            "--seed", rng.randrange(1 << 30),
                            "--fault", f"hang:rank={rank},step=200,sec=20",
                            "--fault", f"cpu:rank={(rank + 2) % RANKS},step=20,how=quota,percent=90"]) as a:
        w, r = session(a, "watch", "-o", f"{a.dir}/findings.jsonl", "--nats", hub.url), session(a, "record")
        notify = monitoring.Notify(f"{a.dir}/findings.jsonl", hook.port, "--warning-after", "3", "--again",
                                   f"{AGAIN_S / 60}")
        m = monitoring.Monitoring([url_of(s).split("/")[2] for s in (w, r)], hook, hubs=[f"127.0.0.1:{hub.metrics}"])
        targets_are_up(m)
        hub_url = f"http://127.0.0.1:{hub.metrics}/metrics"
        panels_have_data(m, hub_url)
        scraped(hub_url)
        warned(w, hook, rank)
        hub.stop()
        victim = (rank + 1) % RANKS
        pid = pid_of(w, a, victim)
        os.kill(pid, signal.SIGSTOP)
        begun = time.monotonic()
        try:
            id = paged(w, hook, victim, begun)
        finally:
            os.kill(pid, signal.SIGCONT)
        resolved(hook, victim, id)
        notify.kill()
        for s in (w, r):
            s.kill()


def pid_of(s, a, rank):
    """The rank's own process, by the job's environment."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                env = dict(e.split(b"=", 1) for e in f.read().split(b"\0") if b"=" in e)
            with open(f"/proc/{pid}/stat") as f:
                parent = int(f.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if env.get(b"RANK") == str(rank).encode() and parent == a.process.pid:
            return int(pid)
    job.fail(f"no process of rank {rank}: {s.stderr()}")


if __name__ == "__main__":
    main()
