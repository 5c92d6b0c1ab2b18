# SPDX-License-Identifier: Apache-2.0
"""ranktrace notify against a local HTTP server: each service's channel is told once, again by the schedule (seconds
here), not after an acknowledgement, and at the end; what was told survives a restart; a channel that cannot be reached,
or refuses, holds up no other and is told when it is back; signatures are right; a rule drains the host by scontrol when
nobody acknowledged in its time; node-problem-detector's plugin says what is open."""
import base64
import hashlib
import hmac
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

sys.path.insert(1, sys.path[0] + "/../aid")
import job

FORMATS = ("wecom", "dingtalk", "feishu", "slack", "json")
SECRET, HEADER = "SECabc", "Authorization: Bearer a.b.c"
# As OpenTelemetry's own definition of the request has it (Debian: python3-opentelemetry-proto), on standard input.
OTLP_CHECK = ("import sys; from google.protobuf import json_format; "
              "from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest as R; "
              "json_format.Parse(sys.stdin.read(), R())")


class Server:
    """Takes POSTs; `got` has (channel, query, JSON) in order."""

    def __init__(self):
        server = self
        self.got, self.refuses, self.headers = [], set(), {}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                url = urllib.parse.urlparse(self.path)
                name, body = url.path.strip("/"), json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                refused = name in server.refuses
                if not refused:
                    server.got.append((name, urllib.parse.parse_qs(url.query), body))
                    server.headers = self.headers if name == "v1/logs" else server.headers
                answer = json.dumps({"errcode": 93000 if refused else 0, "code": 1 if refused else 0,
                                     "errmsg": "no"}).encode()
                if name == "v1/logs":
                    answer = server.otlp_answer
                self.send_response(500 if refused and name in ("json", "slack") else 200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.otlp_answer = b"{}"
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def of(self, name):
        return [g for g in self.got if g[0] == name]

    def wait(self, condition, what, timeout=30):
        end = time.monotonic() + timeout
        while not condition():
            job.check(time.monotonic() < end, f"{what}: {self.got}")
            time.sleep(0.05)


class Notify:
    def __init__(self, folder, server, *more):
        self.dir, self.findings, self.state = folder, f"{folder}/findings.jsonl", f"{folder}/state"
        self.argv = [job.RANKTRACE, "notify", "--state", self.state, "--health-events", f"{folder}/events.jsonl",
                     *more, self.findings]
        for name, path, second in [(f, f, SECRET if f in ("dingtalk", "feishu") else "") for f in FORMATS] + \
                [("otlp", "v1/logs", HEADER)]:
            with open(f"{folder}/{name}.url", "w") as f:
                f.write(f"http://127.0.0.1:{server.http.server_address[1]}/{path}\n{second}\n")
            os.chmod(f"{folder}/{name}.url", 0o600)
            self.argv[-1:-1] = ["--to", f"{name}={folder}/{name}.url"]
        self.process, self.err = None, open(f"{folder}/stderr", "w+")

    def start(self):
        path = f"{self.dir}/bin:" + os.environ["PATH"]
        self.process = subprocess.Popen(self.argv, stderr=self.err, env={**os.environ, "PATH": path})

    def stop(self):
        self.process.terminate()
        job.check(self.process.wait(20) == 0, f"exit {self.process.returncode}: {self.said()}")

    def said(self):
        self.err.seek(0)
        return self.err.read()

    def find(self, id, phase, **more):
        line = {"id": id, "phase": phase, "severity": "critical", "kind": "gpu_health", "job": "llama",
                "host": "node-7", "ranks": [5], "caused_by": None, "cause": "gpu_lost",
                "summary": f"GPU 1 (rank 5) is off the bus: {id}", "time": "2026-11-26T00:00:02.500Z",
                "remedy": "drain it", "since": "2026-11-26T00:00:00Z", "gpu_uuid": "GPU-77", **more}
        with open(self.findings, "a") as f:
            f.write(json.dumps(line) + "\n")

    def run(self, *args):
        return subprocess.run([job.RANKTRACE, "notify", "--state", self.state, *args], capture_output=True, text=True)


def events(server, id):
    """By the generic channel."""
    return [b["event"] for _, _, b in server.of("json") if b["id"] == id]


def signed(server):
    name, query, _ = server.of("dingtalk")[0]
    text = f"{query['timestamp'][0]}\n{SECRET}"
    wanted = base64.b64encode(hmac.new(SECRET.encode(), text.encode(), hashlib.sha256).digest()).decode()
    job.check(query["sign"] == [wanted], f"{name}: {query}, not {wanted}")
    body = server.of("feishu")[0][2]
    key = f"{body['timestamp']}\n{SECRET}"
    wanted = base64.b64encode(hmac.new(key.encode(), b"", hashlib.sha256).digest()).decode()
    job.check(body["sign"] == wanted, f"feishu: {body}, not {wanted}")


def log_events(server, id):
    """What the collector has of an incident: [(its event, the record, the resource's attributes)]."""
    found = []
    for _, _, body in server.of("v1/logs"):
        of, = body["resourceLogs"]
        record, = of["scopeLogs"][0]["logRecords"]
        named = {a["key"]: a["value"] for a in record["attributes"]}
        if named["ranktrace.id"]["stringValue"] == id:
            found.append((named["ranktrace.event"]["stringValue"], record, of["resource"]["attributes"]))
    return found


def logged(server):
    """Begin and end, not what was told again; with time, severity, rank, host; as OpenTelemetry defines it."""
    got = log_events(server, "a-1")
    job.check([e for e, _, _ in got] == ["open", "resolved"], f"{got}")
    _, record, resource = got[0]
    job.check(record["timeUnixNano"] == "1795651202500000000" and record["severityNumber"] == 18 and
              record["body"]["stringValue"].startswith("GPU 1 (rank 5)") and got[1][1]["severityNumber"] == 9, f"{got}")
    job.check({"key": "ranktrace.ranks", "value": {"arrayValue": {"values": [{"intValue": "5"}]}}} in
              record["attributes"] and {"key": "host.name", "value": {"stringValue": "node-7"}} in resource, f"{got}")
    job.check(server.headers["Authorization"] == "Bearer a.b.c", f"{server.headers}")
    if subprocess.run(["/usr/bin/python3", "-c", "import opentelemetry.proto"], capture_output=True).returncode:
        print("  not held against OpenTelemetry's definition: python3-opentelemetry-proto is missing")
        return
    for _, _, body in server.of("v1/logs"):
        out = subprocess.run(["/usr/bin/python3", "-c", OTLP_CHECK], input=json.dumps(body), capture_output=True,
                             text=True)
        job.check(out.returncode == 0, f"{body}: {out.stderr}")
    print("  an OTLP collector has begin and end as log events, as OpenTelemetry defines them")


def first_again_and_end(n, server):
    n.find("old-1", "open")
    n.find("old-1", "close")
    n.start()
    n.find("a-1", "open")
    n.find("a-2", "open", caused_by="a-1")
    n.find("a-3", "open", severity="warning")
    server.wait(lambda: all(server.of(f) for f in FORMATS), "each channel is told")
    server.wait(lambda: events(server, "a-1")[:2] == ["open", "again"], "again")
    server.wait(lambda: events(server, "a-1")[:3] == ["open", "again", "again"], "and again")
    out = n.run("--npd")
    job.check(out.returncode == 1 and "rank 5" in out.stdout and len(out.stdout) <= 81, f"npd: {out}")
    n.find("a-1", "close")
    server.wait(lambda: all(len(server.of(f)) == 4 for f in FORMATS), "four messages each")
    job.check(events(server, "a-1") == ["open", "again", "again", "resolved"], f"{server.got}")
    job.check(not events(server, "old-1") + events(server, "a-2") + events(server, "a-3"), f"{server.got}")
    signed(server)
    server.wait(lambda: len(log_events(server, "a-1")) == 2, "two log events")
    logged(server)
    print("  told, again twice, resolved, once a channel; signatures are right")


def acknowledged_and_restarted(n, server):
    n.find("b-1", "open")
    server.wait(lambda: events(server, "b-1") == ["open"], "b-1")
    job.check(n.run("--acknowledge", "b-1").returncode == 0, "--acknowledge")
    n.find("b-2", "open")
    server.wait(lambda: "open" in events(server, "b-2"), "b-2")
    time.sleep(0.5)
    n.stop()
    before = events(server, "b-2")
    n.start()
    server.wait(lambda: len(events(server, "b-2")) > len(before), "again after a restart", 40)
    job.check(events(server, "b-2").count("open") == 1, f"told anew after a restart: {server.got}")
    job.check(events(server, "b-1").count("again") <= 1, f"told again though acknowledged: {events(server, 'b-1')}")
    n.find("b-1", "close")
    n.find("b-2", "close")
    server.wait(lambda: events(server, "b-1")[-1:] + events(server, "b-2")[-1:] == ["resolved"] * 2, "ends")
    print("  an acknowledgement stops it, a restart tells nothing twice")


def refused(n, server):
    server.refuses = {"wecom", "slack"}
    server.otlp_answer = b'{"partialSuccess":{"rejectedLogRecords":"1","errorMessage":"too old"}}'
    had = len(server.of("wecom"))
    n.find("c-1", "open")
    server.wait(lambda: events(server, "c-1")[:2] == ["open", "again"], "the others are told")
    server.refuses, server.otlp_answer = set(), b"{}"
    server.wait(lambda: len(server.of("wecom")) > had, "told when it is back", 40)
    said = n.said()
    job.check("errcode 93000: no" in said and said.count("wecom=") <= 2, f"said: {said}")
    job.check("the event was rejected: too old" in said, f"said: {said}")
    print("  a channel that refuses holds up no other, and is told when it is back")


def drained(n, server):
    n.find("d-1", "open", job="canary-1")
    end = time.monotonic() + 30
    while not os.path.exists(f"{n.dir}/drained"):
        job.check(time.monotonic() < end, f"not drained: {n.said()}")
        time.sleep(0.1)
    with open(f"{n.dir}/drained") as f:
        said = f.read()
    job.check(said == "update\nNodeName=node-7\nState=DRAIN\nReason=ranktrace: gpu_health gpu=GPU-77 rank=5 "
              "inc=d-1: GPU 1 (rank 5) is off the bus: d-1\n", f"scontrol was called with {said}")
    told = [b for _, _, b in server.of("json") if b["id"] == "d-1"]
    job.check("owner: ops; its host is drained" in told[0]["text"], f"{told}")
    with open(f"{n.dir}/events.jsonl") as f:
        lines = [json.loads(line) for line in f]
    job.check([(e["isHealthy"], e["recommendedAction"]) for e in lines if "a-1" in e["message"]] ==
              [(False, 24), (True, 0)], f"health events: {lines}")
    print("  a rule drains the host when nobody acknowledges; health events have both ends")


def wrong_words(folder):
    with open(f"{folder}/header", "w") as f:
        f.write("http://127.0.0.1:1/v1/logs\ntoken\n")
    for argv, words in (([], "notify whom?"), (["--to", "telegram=/x", "-"], "FORMAT of wecom, dingtalk"),
                        (["--to", f"slack={folder}/none", "-"], "none: No such file"),
                        (["--to", f"otlp={folder}/header", "-"], "header:2: no header: of otlp"),
                        (["--again", "5,3", "--to", "x=y", "-"], "ascending minutes")):
        out = subprocess.run([job.RANKTRACE, "notify", *argv], capture_output=True, text=True)
        job.check(out.returncode == 2 and words in out.stderr, f"{argv}: {out}")
    out = subprocess.run([job.RANKTRACE, "notify", "--npd", "--state", f"{folder}/none"], capture_output=True,
                         text=True)
    job.check(out.returncode == 2 and len(out.stdout) <= 81, f"npd without a state is not unknown: {out}")


folder = tempfile.mkdtemp(prefix="ranktrace-notify-")
job.dirs.append(folder)
server = Server()
os.mkdir(f"{folder}/bin")
with open(f"{folder}/bin/scontrol", "w") as f:
    f.write(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {folder}/drained.new && mv {folder}/drained.new {folder}/drained\n")
os.chmod(f"{folder}/bin/scontrol", 0o755)
with open(f"{folder}/rules", "w") as f:
    f.write("job=canary-* action=drain owner=ops timeout=1s\n")
notify = Notify(folder, server, "--again", "0.03,0.06", "--rules", f"{folder}/rules")
wrong_words(folder)
try:
    first_again_and_end(notify, server)
    acknowledged_and_restarted(notify, server)
    refused(notify, server)
    drained(notify, server)
    notify.stop()
finally:
    if notify.process.poll() is None:
        notify.process.kill()
