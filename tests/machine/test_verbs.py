# SPDX-License-Identifier: Apache-2.0
"""The verbs tracer over stand-ins for libibverbs and two providers (real structs, static functions, one stripped, one a
moved copy): per queue pair, posts, bytes and completions equal what the application counted itself. Seen from the
start, attached in the middle, and in the trace tier, where nothing is probed on the way of data. """
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import verbs_records

HERE = os.path.dirname(os.path.abspath(job.__file__)) + "/verbs/"
COUNTED = ("posts", "post_bytes", "signalled", "recv_posts", "send_done", "recv_done", "recv_bytes", "errors")
RETRY_EXCEEDED, PORT_ERROR, RTS = 12, 10, 3
FOUND = 4
EXPORTED, PLACED = 15, 8  # probes on the stand-in library; on each provider: poll (both sides), 2 posts, 4 of ibv_wr_*


def build(to):
    cc = ["cc", "-O1", "-fPIC", "-shared", "-w"]
    subprocess.run(cc + ["-o", f"{to}/libibverbs.so.1", "-Wl,-soname,libibverbs.so.1", HERE + "verbs.c", "-ldl"],
                   check=True)
    subprocess.run(cc + ["-o", f"{to}/liba-rdmav34.so", "-DSKEW=1", "-Wl,--build-id", HERE + "provider.c"], check=True)
    subprocess.run(cc + ["-s", "-o", f"{to}/libb-rdmav34.so", "-DSKEW=9", "-Wl,--build-id", HERE + "provider.c"],
                   check=True)
    os.mkdir(f"{to}/moved")
    shutil.copy(f"{to}/liba-rdmav34.so", f"{to}/moved/other-name.so")
    subprocess.run(["cc", "-O1", "-w", "-o", f"{to}/target", HERE + "target.c", "-L" + to, "-l:libibverbs.so.1",
                    "-Wl,-rpath," + to], check=True)
    open(f"{to}/uverbs0", "w").close()
    return [f"{to}/target", f"{to}/uverbs0", f"{to}/liba-rdmav34.so", f"{to}/libb-rdmav34.so",
            f"{to}/moved/other-name.so"]


class Target:
    def __init__(self, argv):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = json.loads(self.process.stdout.readline())["ready"]

    def ask(self, line):
        """What it counted so far, by queue pair."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        seen = {}
        while "done" not in (r := json.loads(self.process.stdout.readline())):
            seen[r["qpn"]] = r
        return seen

    def end(self):
        self.process.stdin.close()
        self.process.wait(60)


def until(what, path, why):
    for _ in range(300):
        if what():
            return
        time.sleep(0.1)
    job.fail(f"{why}: {open(path).read()[-400:]}")


def n_probes(err):
    """Probes that are on, as it says when asked."""
    return [int(line.split(" probes")[0].split()[-1]) for line in open(err) if " probes, " in line]


class Tracer:
    def __init__(self, to, pid, tier):
        self.rtr, self.err = f"{to}/{tier}-{pid}.rtr", f"{to}/{tier}-{pid}.err"
        self.process = subprocess.Popen([job.RANKTRACE, "record", "-v", "--tier", tier, "--budget=no", "-o", self.rtr,
                                         "--pid", str(pid)],
                                        stderr=open(self.err, "w"))

    def wait_probes(self, n):
        def there():
            job.check(self.process.poll() is None, open(self.err).read())
            self.process.send_signal(10)
            time.sleep(0.1)
            return any(got >= n for got in n_probes(self.err))
        time.sleep(1)
        until(there, self.err, f"fewer than {n} probes")

    def end(self):
        self.process.wait(60)
        return self.rtr


def compare(path, truth, before=None):
    seen = verbs_records.stats(path)
    for qpn, t in truth.items():
        for field in COUNTED:
            want = t[field] - (before[qpn][field] if before else 0)
            got = seen.get(qpn, {}).get(field, 0)
            job.check(got == want, f"QP {qpn}: {field} is {got}, the application counted {want}")
        job.check(not seen.get(qpn, {}).get("cut"), f"QP {qpn}: cut")
    return seen


def attached_late(to, argv):
    """All was opened before: contexts are found in memory, the functions once in each of the three files."""
    t = Target(argv)
    before = t.ask("go 20")
    tracer = Tracer(to, t.pid, "burst")
    tracer.wait_probes(EXPORTED + 3 * PLACED)
    truth = t.ask("go 200")
    t.ask("er")
    truth = t.ask("go 3")
    t.end()
    rtr = tracer.end()
    seen = compare(rtr, truth, before)
    first = min(truth)
    job.check(seen[first]["first_status"] == RETRY_EXCEEDED and seen[first]["in_flight_bytes"] != 2**64 - 1,
              seen[first])
    job.check(seen[first]["latency_n"] > 100, f"latencies of {seen[first]['latency_n']} posts")
    errors = [r for r in verbs_records.records(rtr) if r["kind"] == "error"]
    job.check([(e["qpn"], e["status"], e["vendor_error"]) for e in errors] == [(first, RETRY_EXCEEDED, 0x81)], errors)
    found = {r["qpn"]: r for r in verbs_records.records(rtr) if r["kind"] == "qp" and r["change"] == FOUND}
    job.check(set(found) == set(truth), f"queue pairs found: {sorted(found)}")
    job.check(all(r["state"] == RTS and r["device"].startswith(b"fake") for r in found.values()), found)
    libs = list(verbs_records.libs(rtr))
    providers = sorted(os.path.basename(p) for p, n in libs if n and "ibverbs.so" not in p)
    job.check(sorted(set(providers)) == ["liba-rdmav34.so", "libb-rdmav34.so", "other-name.so"], libs)


def reported_queue_pairs(rtr, truth):
    """What the model makes of them: `replay --qps`."""
    out = subprocess.run([job.RANKTRACE, "replay", "-q", "--qps", rtr], capture_output=True, text=True)
    rows = {r["qp"]: r for r in map(json.loads, out.stdout.splitlines())}
    job.check(set(rows) == set(truth), f"replay --qps: {out.stdout} {out.stderr}")
    for qpn, t in truth.items():
        r = rows[qpn]
        job.check(all(r["totals"][f] == t[f] for f in COUNTED), f"QP {qpn}: {r['totals']}, the application counted {t}")
        job.check(r["state"] == "ready to send" and r["peer_gid"] == "10.0.0.2" and 1000 <= r["peer_qp"] < 1003 and
                  r["peer_rank"] is None and r["device"].startswith("fake") and r["totals"]["from_start"], r)


def bursts_follow_each_other(rtr, truth):
    """Whenever all was completed, what was posted since the last such moment; together what was posted, but for an end
    that was too soon."""
    qpn, last_ns, posts, size = min(truth), 0, 0, 0
    for b in verbs_records.records(rtr):
        if b["kind"] == "burst" and b["qpn"] == qpn:
            job.check(last_ns < b["first_ns"] <= b["last_ns"] <= b["ts"] and b["posts"], b)
            last_ns, posts, size = b["ts"], posts + b["posts"], size + b["bytes"]
    job.check(0 < posts <= truth[qpn]["posts"] and size <= truth[qpn]["post_bytes"],
              f"{posts} posts in bursts of {truth[qpn]}")
    job.check(posts > truth[qpn]["posts"] // 2, f"{posts} posts in bursts of {truth[qpn]}")


def seen_from_start(to, argv):
    rtr, err = f"{to}/start.rtr", open(f"{to}/start.err", "w+")
    p = subprocess.Popen([job.RANKTRACE, "record", "--tier", "burst", "--budget=no", "-o", rtr, "--"] + argv,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True)
    t = Target.__new__(Target)
    t.process = p
    json.loads(p.stdout.readline())
    t.ask("go 50")
    truth = t.ask("go 20")
    t.end()
    seen = compare(rtr, truth)
    job.check(all(r["from_start"] for r in seen.values()), {q: r["from_start"] for q, r in seen.items()})
    reported_queue_pairs(rtr, truth)
    bursts_follow_each_other(rtr, truth)
    qps = [r for r in verbs_records.records(rtr) if r["kind"] == "qp"]
    job.check(all(r["change"] != FOUND for r in qps),
              "its memory was searched for devices that it opened before our eyes")
    peers = {r["qpn"]: (r["dest_qpn"], r["dgid"][12:]) for r in qps if r["dest_qpn"]}
    job.check(set(peers) == set(truth) and all(a == b"\x0a\x00\x00\x02" and 1000 <= d < 1003
                                               for d, a in peers.values()), peers)
    job.check(sum(r["kind"] == "mr" and r["bytes"] == 8192 for r in verbs_records.records(rtr)) == 3, "registrations")
    job.check([r["type"] for r in verbs_records.records(rtr) if r["kind"] == "async"] == [PORT_ERROR],
              "asynchronous event")


def trace_tier(to, argv):
    t = Target(argv)
    tracer = Tracer(to, t.pid, "trace")
    tracer.wait_probes(EXPORTED)
    t.ask("go 20")
    t.end()
    job.check(not verbs_records.stats(tracer.end()), "the trace tier has probes where the data goes")
    job.check(max(n_probes(tracer.err)) == EXPORTED, n_probes(tracer.err))


def one_after_the_other(to, argv, lacks):
    """Programs that post as soon as they run, in one session. A run may be over before it could be probed, and then it
    says so; where probes go on a file for all processes, all but the first, in which the provider was learnt, have them
    from their beginning."""
    rtr, err = f"{to}/quick{lacks}.rtr", open(f"{to}/quick{lacks}.err", "w+")
    line = f"{' '.join(argv)} < /dev/null > /dev/null; for i in 1 2 3 4; do VERBS_QUICK=1 {' '.join(argv)}; done"
    out = subprocess.run([job.RANKTRACE, "record", "-q", "--json", "--tier", "burst", "--budget=no", "-o", rtr, "--",
                          "sh", "-c",
                          f"({line}) > {to}/quick.out"], stdout=err, stderr=err,
                         env=dict(os.environ, RANKTRACE_KERNEL_LACKS=lacks))
    job.check(out.returncode <= 1, open(err.name).read())
    truth = [t for t in map(json.loads, open(f"{to}/quick.out")) if "done" not in t]
    job.check(len(truth) == 4 * 9, truth)
    from_start = 0
    for t in truth:
        seen = verbs_records.stats(rtr, t["pid"]).get(t["qpn"], {})
        from_start += seen.get("from_start", 0)
        if lacks or seen.get("from_start"):
            job.check(seen.get("from_start") and all(seen[f] == t[f] for f in COUNTED),
                      f"{seen}, the application counted {t}")
        else:  # over before it could be probed, or while it was: what is counted is less, and says that it is
            job.check(all(seen.get(f, 0) <= t[f] for f in COUNTED), f"{seen}, the application counted {t}")
    print(f"lacks '{lacks}': {from_start} of {len(truth)} queue pairs of quick programs seen from their start")


def main():
    job.need_root()
    to = tempfile.mkdtemp(prefix="ranktrace-verbs-")
    job.dirs.append(to)
    argv = build(to)
    attached_late(to, argv)
    seen_from_start(to, argv)
    trace_tier(to, argv)
    one_after_the_other(to, argv, "uprobe-multi")
    one_after_the_other(to, argv, "")


if __name__ == "__main__":
    main()
