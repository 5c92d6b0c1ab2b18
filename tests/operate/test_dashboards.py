# SPDX-License-Identifier: Apache-2.0
"""Prometheus and Alertmanager with the rules and examples of dashboards/ over a simulated job, which `watch` and
`record` serve: rules load, each panel's query returns data, each file is as panels.py has it. A rank that is stopped
pages once on the pager's webhook with its rank within 30 s, and ends with a message; a stall that is a warning pages no
one."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import types

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

RANKS = 4


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


def panels_have_data(m, timeout=60):
    missing, end = list(panels.queries()), time.monotonic() + timeout
    n = len(missing)
    while missing and time.monotonic() < end:
        time.sleep(1)
        missing = [q for q in missing if not (m.get("query", query=expression(q[2])) or {}).get("result")]
    job.check(not missing, "no data: " + "; ".join(f"{f} '{t}': {expression(q)}" for f, t, q in missing))
    print(f"  {n} panels' queries return data")


def targets_are_up(m):
    data = m.wait(lambda d: sum(t["health"] == "up" for t in d["activeTargets"]) == 2, 40, "targets")
    job.check(data, f"targets: {m.get('targets')}")
    rules = m.get("rules")
    bad = [r["name"] for g in rules["groups"] for r in g["rules"] if r["health"] == "err"]
    job.check(not bad and len(rules["groups"]) == 4, f"rules: {bad}")


def of_rank(path, body, channel, rank, status):
    return path == channel and body["status"] == status and \
        any(a["labels"].get("rank") == str(rank) for a in body["alerts"])


def paged(s, hook, rank, begun):
    """Once, with its rank; then it goes on."""
    got = hook.wait(lambda path, body: of_rank(path, body, "/pager", rank, "firing"), 60)
    job.check(got, f"no page: {hook.got}\n{s.findings}")
    print(f"  paged {got[0] - begun:.1f} s after the rank was stopped")
    job.check(got[0] - begun <= job.bar(30), f"{got[0] - begun:.1f} s until the page")
    time.sleep(7)  # an interval of its group more
    pages = [b for _, p, b in hook.got if p == "/pager" and b["status"] == "firing"]
    named = {a["labels"].get("rank") for b in pages for a in b["alerts"]}
    job.check(len(pages) == 1 and named == {str(rank)}, f"pages: {pages}")
    job.check(any(f["ranks"] == [rank] and f["severity"] == "critical" for f in s.findings), f"{s.findings}")


def session(a, command):
    """Each with files of its own."""
    d = tempfile.mkdtemp(prefix="ranktrace-session-")
    job.dirs.append(d)
    return outside.Session(types.SimpleNamespace(dir=d, process=a.process), command, "--metrics", "0")


def main():
    job.need_root()
    monitoring.need()
    files()
    rng, _ = job.seed()
    gpus.use()
    ports.Ports(2, [0])
    hook = monitoring.Webhook()
    rank = rng.randrange(RANKS)
    with autopsies.Autopsy(["--ranks", RANKS, "--steps", 100000, "--step-ms", 60, "--net=tcp",
                            "--seed", rng.randrange(1 << 30),
                            "--fault", f"hang:rank={rank},step=200,sec=12",
                            "--fault", f"cpu:rank={rank},step=20,how=quota,percent=90"]) as a:
        w, r = session(a, "watch"), session(a, "record")
        m = monitoring.Monitoring([url_of(s).split("/")[2] for s in (w, r)], hook)
        targets_are_up(m)
        job.check(w.wait(60, kind="hang", phase="open"), f"no hang: {w.findings}")
        panels_have_data(m)
        job.check(w.wait(60, kind="hang", phase="close"), f"the hang does not end: {w.findings}")
        job.check(not hook.got, f"a stall of 12 s is ordinary life: {hook.got}")
        victim = (rank + 1) % RANKS
        pid = pid_of(w, a, victim)
        os.kill(pid, signal.SIGSTOP)
        begun = time.monotonic()
        try:
            paged(w, hook, victim, begun)
        finally:
            os.kill(pid, signal.SIGCONT)
        end = hook.wait(lambda path, body: of_rank(path, body, "/pager", victim, "resolved"), 60)
        job.check(end, f"no message that it is over: {hook.got}")
        others = [g for g in hook.got if g[1] == "/channel"]
        job.check(not others, f"P1 at once: {others}")
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
