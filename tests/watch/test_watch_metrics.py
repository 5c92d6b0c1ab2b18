# SPDX-License-Identifier: Apache-2.0
"""--metrics: what `watch` and `record` serve of a simulated job is true, of the form that promtool and both formats ask
for, small and quick. Its server outlives clients that are slow, broken, or a thousand at once, and these delay nothing.
What is asked for wrongly is answered so."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(1, sys.path[0] + "/../aid")
import autopsies
import gpus
import job
import outside
import ports

SAMPLE = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$')
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
RANKS = 8
PHASES = ("data_wait", "forward", "backward", "optimizer", "gc", "other", "gpu_wait")


def url_of(s, timeout=30):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        found = re.search(r"metrics at (http://\S+)", s.stderr())
        if found:
            return found[1]
        time.sleep(0.05)
    job.fail(f"no endpoint within {timeout} s: {s.stderr()}")


def get(url, accept="text/plain", method="GET"):
    """Status, type, body, seconds."""
    begin = time.monotonic()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}, method=method),
                                    timeout=10) as r:
            return r.status, r.headers["Content-Type"], r.read().decode(), time.monotonic() - begin
    except urllib.error.HTTPError as e:
        return e.code, e.headers["Content-Type"], e.read().decode(), time.monotonic() - begin


def samples(text):
    """{name: {labels: value}}; each series once."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        m = SAMPLE.match(line)
        job.check(m, f"no sample: {line}")
        labels = frozenset(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', m[2] or ""))
        job.check(labels not in found.setdefault(m[1], {}), f"twice: {line}")
        found[m[1]][labels] = float(m[3])
    return found


def value(found, name, **labels):
    """Sum over the series with these labels; None where there is none."""
    got = [v for k, v in found.get(name, {}).items() if set(labels.items()) <= k]
    return sum(got) if got else None


def wait_page(url, ready, timeout=40):
    end = time.monotonic() + timeout
    while True:
        status, _, text, _ = get(url)
        if status == 200 and ready(samples(text)):
            return samples(text)
        job.check(time.monotonic() < end, f"not as expected within {timeout} s: {status}\n{text}")
        time.sleep(0.5)


def has_all_ranks(found):
    return value(found, "ranktrace_job_ranks_seen") == RANKS and value(found, "ranktrace_collectives_total")


def entered(a, rank):
    return sum(1 for o in job.lines(a.ops_log) if o["rank"] == rank and o["op"] in job.COUNTED)


def numbers_are_true(a, url):
    """Between two pages each rank entered as many collectives as the job's own log says, and no counter falls."""
    first = wait_page(url, has_all_ranks)
    before = [entered(a, r) for r in range(RANKS)]
    time.sleep(4)
    second = samples(get(url)[2])
    for r in range(RANKS):
        counted = [value(f, "ranktrace_collectives_total", rank=str(r)) for f in (first, second)]
        logged = entered(a, r) - before[r]
        # pages and samples are a second old, and so may the log be
        job.check(0.4 * logged <= counted[1] - counted[0] <= 2 * logged + 5, f"rank {r}: {counted}, logged {logged}")
    for name, series in first.items():
        for labels, v in series.items() if name.endswith("_total") else ():
            job.check(second.get(name, {}).get(labels, v) >= v, f"{name} {set(labels)} fell from {v}")
    job.check(value(second, "ranktrace_job_ranks") == RANKS, f"ranks {second['ranktrace_job_ranks']}")
    job.check(len(second["ranktrace_gpu_info"]) == RANKS, f"GPUs: {second.get('ranktrace_gpu_info')}")
    for r in range(RANKS):
        job.check(value(second, "ranktrace_gpu_info", rank=str(r), gpu=str(r)) == 1, f"rank {r} on GPU {r}: not so")
    job.check(value(second, "ranktrace_rdma_port_active", device="mlx5_0", port="1") == 1, "no port")
    return second


def forms(url):
    status, kind, text, _ = get(url)
    job.check((status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8"), f"{status} {kind}")
    if shutil.which("promtool"):
        out = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        job.check(out.returncode == 0 and not out.stderr, f"promtool: {out.stdout}{out.stderr}")
    _, kind, open_text, _ = get(url, OPENMETRICS)
    job.check(kind.startswith(OPENMETRICS) and open_text.endswith("# EOF\n"), f"{kind}: {open_text[-80:]}")
    job.check(samples(open_text).keys() == samples(text).keys(), "the formats differ in samples")
    times = sorted(get(url)[3] for _ in range(20))
    print(f"  {len(text)} bytes, {text.count(chr(10)) - text.count('# ')} series, a scrape {times[0] * 1e3:.1f} ms "
          f"(median {times[10] * 1e3:.1f} ms, longest {times[-1] * 1e3:.1f} ms)")
    job.check(len(text) <= 300_000, f"{len(text)} bytes for {RANKS} ranks")
    # what it costs; the others waited for a CPU, too
    job.check(times[0] <= 0.02, f"a scrape takes {times[0] * 1e3:.1f} ms")


def wrong_requests(url):
    root = url.removesuffix("/metrics")
    job.check(get(root + "/")[0] == 200 and get(root + "/other")[0] == 404, "other paths")
    job.check(get(url, method="POST")[0] == 405 and get(url, method="DELETE")[0] == 405, "other methods")
    job.check(get(url, method="HEAD")[:1] == (200,), "HEAD")


def connect(url):
    host, _, port = url.split("/")[2].rpartition(":")
    return socket.create_connection((host, int(port)), timeout=15)


def broken(rng, url):
    """Bytes that are no request; one cut short; a header without end; one that takes no answer."""
    for data in (rng.randbytes(3000), b"GET /metr", b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 100000, b"\r\n" * 5000,
                 b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
                 b"GET /metrics HTTP/9.9\r\n\r\n", b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50):
        with connect(url) as s:
            try:
                s.sendall(data)
            except OSError:
                pass
    job.check(get(url)[0] == 200, "broken clients end it")


def many(url):
    """A thousand at once are all answered."""
    done, lock = [], threading.Lock()

    def one():
        status, _, text, _ = get(url)
        with lock:
            done.append((status, len(text)))

    def some():
        for _ in range(10):
            one()
    held = [connect(url) for _ in range(900)]  # who sends nothing
    threads = [threading.Thread(target=some) for _ in range(100)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    job.check(len(done) == 1000 and all(s == 200 and n > 1000 for s, n in done), f"{len(done)} answered: {set(done)}")
    begin = time.monotonic()
    for s in held:  # each is closed by the server, after its 5 s
        job.check(s.recv(1) == b"", "an answer without a request")
        s.close()
    job.check(time.monotonic() - begin < 10, "who sends nothing stays")


def slow(url):
    """More than may be open, of which each sends a byte now and then: others are served at once."""
    held = [connect(url) for _ in range(1700)]
    for s in held[::50]:
        try:
            s.sendall(b"G")
        except OSError:
            pass
    job.check(get(url)[3] < 2, "slow clients keep others out")
    for s in held:
        s.close()


def clients(rng, url):
    before = samples(get(url)[2])
    broken(rng, url)
    many(url)
    slow(url)
    time.sleep(1.2)
    after = samples(get(url)[2])
    gap = value(after, "ranktrace_turn_gap_seconds")
    job.check(gap < job.bar(1), f"{gap} s without a turn")
    job.check(value(after, "ranktrace_records_total") > value(before, "ranktrace_records_total"), "no record since")


def findings(s, url, rank):
    """What is open has the rank; it goes when it is over, and its count stays."""
    f = s.wait(60, kind="hang", phase="open")
    job.check(f, f"no hang: {s.stderr()}")
    page = wait_page(url, lambda p: value(p, "ranktrace_findings_open", kind="hang"), 10)
    age = {k: v for k, v in page["ranktrace_finding_age_seconds"].items() if ("kind", "hang") in k}
    job.check(len(age) == 1 and {("rank", str(rank)), ("root", "yes"),
                                 ("class", "missing_enter")} <= set(next(iter(age))), f"{age}, not rank {rank}")
    page = wait_page(url, lambda p: value(p, "ranktrace_findings_open", kind="hang") == 0, 60)
    job.check(value(page, "ranktrace_findings_total", kind="hang") >= 1 and
              not [k for k in page.get("ranktrace_finding_age_seconds", {}) if ("kind", "hang") in k], "not closed")


def starts_that_fail(url):
    port = url.split("/")[2].rpartition(":")[2]
    for address, said in ((port, "Address already in use"), ("nowhere:1", "is no address to listen on"),
                          ("203.0.113.9:9978", "Cannot assign requested address")):
        out = subprocess.run([job.RANKTRACE, "watch", "--metrics", address, "--flight=no", "--phases=no", "-d", "1"],
                             capture_output=True, text=True, timeout=60)
        job.check(out.returncode == 2 and said in out.stderr, f"{address}: {out.returncode} {out.stderr}")


def stopped(s, url):
    """What a collector without a turn left is not served for ever; with a turn it is again."""
    s.process.send_signal(signal.SIGSTOP)
    time.sleep(32)
    status, _, text, _ = get(url)
    s.process.send_signal(signal.SIGCONT)
    job.check(status == 503 and "no turn" in text, f"a stopped collector: {status} {text[:200]}")
    wait_page(url, lambda p: value(p, "ranktrace_turn_gap_seconds") is not None, 10)


def server_ends(s):
    """It has nothing of the collector's. When it ends, the session says so and goes on."""
    with open(f"/proc/{s.process.pid}/task/{s.process.pid}/children") as f:
        children = f.read().split()
    server = next(int(p) for p in children if open(f"/proc/{p}/comm").read() == "ranktrace-http\n")
    files = {os.readlink(f"/proc/{server}/fd/{fd}").split(":")[0] for fd in os.listdir(f"/proc/{server}/fd")}
    job.check(files <= {"socket", "/memfd", "anon_inode"}, f"the server has open: {files}")
    os.kill(server, signal.SIGKILL)
    end = time.monotonic() + 10
    while "server of the metrics ended" not in s.stderr() and time.monotonic() < end:
        time.sleep(0.1)
    job.check(s.stderr().count("server of the metrics ended") == 1 and s.process.poll() is None, s.stderr())


def watched(rng):
    rank = rng.randrange(RANKS)
    with autopsies.Autopsy(["--ranks", RANKS, "--steps", 100000, "--step-ms", 40, "--seed", rng.randrange(1 << 30),
                            "--fault", f"hang:rank={rank},step=300,sec=16"]) as a:
        s = outside.Session(a, "watch", "--metrics", "0")
        url = url_of(s)
        numbers_are_true(a, url)
        forms(url)
        wrong_requests(url)
        starts_that_fail(url)
        clients(rng, url)
        findings(s, url, rank)
        if job.LONG:
            stopped(s, url)
        server_ends(s)
        s.kill()


def recorded(rng):
    """With probes: steps, operations, bytes, waits, who came last."""
    slow_rank = rng.randrange(4)
    with autopsies.Autopsy(["--ranks", 4, "--steps", 100000, "--step-ms", 40, "--torch", "--seed",
                            rng.randrange(1 << 30)]) as a:
        s = outside.Session(a, "record", "--metrics", "[::1]:0" if socket.has_ipv6 else "0", "--budget=no")
        url = url_of(s)
        page = wait_page(url, lambda p: value(p, "ranktrace_steps_seen") == 4 and
                         (value(p, "ranktrace_steps_total", rank=str(slow_rank)) or 0) > 5)
        step = value(page, "ranktrace_step_seconds", rank="0")
        job.check(0.03 < step < 0.4, f"a step of 40 ms takes {step} s")
        for name in ("operations", "operation_bytes", "peer_wait_seconds", "last_arrivals"):
            job.check(value(page, f"ranktrace_{name}_total"), f"no {name}: {page.get(f'ranktrace_{name}_total')}")
        phases(url)
        lateness(page)
        job.check(value(page, "ranktrace_tier_info", tier="trace") == 1, "no tier")
        job.check(value(page, "ranktrace_probe_hits_total") is None, "hits without prices")
        s.kill()


def phases(url):
    """Of a rank they are all of its steps, by name; the job's marks are PyTorch's."""
    name = "ranktrace_step_phase_seconds_total"
    page = wait_page(url, lambda p: value(p, name, rank="0", phase="backward"))
    got = {phase: value(page, name, rank="0", phase=phase) for phase in PHASES}
    job.check(None not in got.values() and got["forward"] and sum(got.values()) > 0.03, f"a step of 40 ms: {got}")


def lateness(page):
    """A histogram a rank, of as many collectives as its last bucket says; somebody was first, so late by nothing."""
    name = "ranktrace_entry_lateness_seconds"
    for rank in map(str, range(4)):
        n = value(page, f"{name}_count", rank=rank)
        all_of_it = value(page, f"{name}_bucket", rank=rank, le="+Inf")
        job.check(n and n == all_of_it, f"rank {rank}: {n} and {all_of_it}")
    job.check(value(page, f"{name}_bucket", le="0.0003") and value(page, f"{name}_sum"), "nobody was first, or late")


def main():
    job.need_root()
    rng, _ = job.seed()
    gpus.use()
    ports.Ports(2, [0])
    watched(rng)
    recorded(rng)


if __name__ == "__main__":
    main()
