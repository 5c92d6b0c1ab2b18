# SPDX-License-Identifier: Apache-2.0
"""Prometheus, Alertmanager, `ranktrace notify` and a webhook on loopback, with the rules and examples of dashboards/,
of which only ports and, where a test cannot wait that long, pauses are changed."""
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import job

DASHBOARDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "dashboards")


def need():
    for tool in ("prometheus", "promtool", "prometheus-alertmanager", "amtool"):
        if not shutil.which(tool):
            job.skip(f"no {tool}: make deps-test installs it")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Webhook:
    """Takes POSTs; `got` has (seconds, path, JSON)."""

    def __init__(self):
        hook = self
        self.got, self.cond = [], threading.Condition()
        self.status = 200

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with hook.cond:
                    hook.got.append((time.monotonic(), self.path, body))
                    hook.cond.notify_all()
                answer = b'{"errcode":0,"code":0,"ok":true}'
                self.send_response(hook.status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def wait(self, is_meant, timeout):
        """The first message of which that is true; None."""
        end = time.monotonic() + timeout
        with self.cond:
            while True:
                found = next((g for g in self.got if is_meant(*g[1:])), None)
                if found or time.monotonic() >= end:
                    return found
                self.cond.wait(0.2)


# What a test that cannot wait has instead: (file, as it is, as it is then).
QUICK = (("alertmanager.yml", "group_wait: 30s", "group_wait: 1s"),
         ("alertmanager.yml", "group_interval: 1m", "group_interval: 5s"),
         ("alertmanager.yml", "group_interval: 5m", "group_interval: 5s"),
         ("prometheus.yml", "scrape_interval: 5s", "scrape_interval: 2s"),  # 1 s is its time limit, too: a page missed
         ("rules.yml", "interval: 5s", "interval: 1s"),
         ("rules.yml", 'severity="warning", root="yes"})\n        for: 5m',
          'severity="warning", root="yes"})\n        for: 3s'))


class Monitoring:
    """quick: as QUICK has it, else as shipped. targets, hubs: addresses of `watch`, of `hub`."""

    def __init__(self, targets, hook, quick=True, hubs=()):
        self.dir = tempfile.mkdtemp(prefix="ranktrace-monitoring-")
        job.dirs.append(self.dir)
        self.processes, self.port, am = [], free_port(), free_port()
        self.example("rules.yml", quick)
        self.example("alertmanager.yml", quick, ("127.0.0.1:9099", f"127.0.0.1:{hook.port}"))
        self.example("prometheus.yml", quick, ("'127.0.0.1:9978'", ", ".join(f"'{t}'" for t in targets)),
                     ("'127.0.0.1:9979'", ", ".join(f"'{t}'" for t in hubs)),
                     ("127.0.0.1:9093", f"127.0.0.1:{am}"))
        self.check("promtool", "check", "config", f"{self.dir}/prometheus.yml")
        self.check("amtool", "check-config", f"{self.dir}/alertmanager.yml")
        self.start("prometheus-alertmanager", f"--config.file={self.dir}/alertmanager.yml",
                   f"--storage.path={self.dir}/am", f"--web.listen-address=127.0.0.1:{am}",
                   "--cluster.listen-address=")
        self.start("prometheus", f"--config.file={self.dir}/prometheus.yml", f"--storage.tsdb.path={self.dir}/tsdb",
                   f"--web.listen-address=127.0.0.1:{self.port}", "--web.enable-admin-api")
        job.jobs.append(self)

    def example(self, name, quick, *changes):
        with open(f"{DASHBOARDS}/{name}") as f:
            text = f.read()
        for old, new in changes + tuple(q[1:] for q in QUICK if quick and q[0] == name):
            job.check(old in text, f"{name} has no {old}")
            text = text.replace(old, new)
        with open(f"{self.dir}/{name}", "w") as f:
            f.write(text)

    def check(self, *argv):
        out = subprocess.run(argv, capture_output=True, text=True)
        job.check(out.returncode == 0, f"{' '.join(argv)}: {out.stdout}{out.stderr}")

    def start(self, *argv):
        log = open(f"{self.dir}/{argv[0]}.log", "w")
        self.processes.append(subprocess.Popen(argv, stdout=log, stderr=log))

    def kill(self):
        for p in self.processes:
            if p.poll() is None:
                p.send_signal(signal.SIGKILL)
                p.wait()

    def get(self, path, **query):
        """The data of an answer; None: not yet, or the query is wrong (`error` says why)."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as r:
                return json.load(r)["data"]
        except urllib.error.HTTPError as e:
            self.error = e.read().decode()
        except OSError as e:
            self.error = str(e)
        return None

    def wait(self, is_meant, timeout, path, **query):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            data = self.get(path, **query)
            if data is not None and is_meant(data):
                return data
            time.sleep(0.5)
        return None


class Notify:
    """`ranktrace notify` of a session's file of findings, to a channel of each format: /FORMAT at that port."""
    FORMATS = ("wecom", "dingtalk", "feishu", "slack", "json")

    def __init__(self, findings, port, *more):
        self.dir = tempfile.mkdtemp(prefix="ranktrace-notify-")
        job.dirs.append(self.dir)
        argv = [job.RANKTRACE, "notify", "--state", f"{self.dir}/state", *more]
        for name in self.FORMATS:
            with open(f"{self.dir}/{name}.url", "w") as f:
                f.write(f"http://127.0.0.1:{port}/{name}\n")
            os.chmod(f"{self.dir}/{name}.url", 0o600)
            argv += ["--to", f"{name}={self.dir}/{name}.url"]
        self.process = subprocess.Popen([*argv, findings], stderr=open(f"{self.dir}/stderr", "w"))
        job.jobs.append(self)

    def said(self):
        with open(f"{self.dir}/stderr") as f:
            return f.read()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
