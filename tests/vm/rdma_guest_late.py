# SPDX-License-Identifier: Apache-2.0
"""Inside a guest with soft-RoCE, beside rdma_guest.py: attached in the middle of a run, far ends, a provider that was
moved, and one session over two copies of it.

What is exact about an attach in the middle: the kernel counts a queue pair's packets itself (its send PSN, by netlink),
and perftest prints the PSN it began with. With messages of one packet, and the tool stopped until the device has sent
what was posted: (send PSN while stopped - first PSN) + (our posts at the end - our posts while stopped) = posts of the
whole run (-n), but for one that was counted and not yet made, where the stop came inside of the provider's function:
then one less on one queue pair. Completions that are polled after the attach are those of what was signalled after it,
and of what was out then: at most the tool's send queue (-t) more. """
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import rdma_guest
import rdma_when
import verbs_records
from rdma_guest import ADDRESS, BURST, RANKTRACE, listening, until

SIZE, DEPTH = 1024, 128


def perf(tool, n, *more):
    return [tool, "-d", "rxe0", "-F", "-n", str(n), "-s", str(SIZE), "-t", str(DEPTH), *more]


def kernels_qps(pid):
    """{QP number: its row of `rdma resource show qp`} of a process."""
    out = subprocess.run(["rdma", "-j", "resource", "show", "qp"], capture_output=True, text=True, check=True).stdout
    return {q["lqpn"]: q for q in json.loads(out) if q.get("pid") == pid}


def pair(tool, env=(None, None)):
    """Server and client, running."""
    s = subprocess.Popen(tool, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env[0])
    until(listening, "the server does not listen")
    c = subprocess.Popen(tool + [ADDRESS], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env[1])
    return s, c


def attach(rtr, *pids):
    err = open(rtr + ".err", "w")
    argv = [RANKTRACE, "record", *BURST, "-o", rtr]
    for pid in pids:
        argv += ["--pid", str(pid)]
    return subprocess.Popen(argv, stderr=err)


def listens(pid):
    """It takes SIGUSR1 by now: before, the signal would end it."""
    mask = next(line for line in open(f"/proc/{pid}/status") if line.startswith("SigBlk"))
    return int(mask.split()[1], 16) >> (signal.SIGUSR1 - 1) & 1


def loaded(pid):
    """Its programs are loaded, and it begins to attach."""
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            if os.readlink(f"/proc/{pid}/fd/{fd}").replace("-", "_") == "anon_inode:bpf_link":
                return True
        except FileNotFoundError:
            pass
    return False


def wait_probes(tracer, rtr, n, meanwhile=lambda: None):
    def there():
        meanwhile()
        if tracer.poll() is not None:
            sys.exit(f"the tracer ended with {tracer.returncode}: " + open(rtr + ".err").read())
        tracer.send_signal(signal.SIGUSR1)
        time.sleep(0.3)
        said = [int(line.split(" probes")[0].split()[-1]) for line in open(rtr + ".err") if " probes, " in line]
        return any(got >= n for got in said)
    until(lambda: tracer.poll() is not None or listens(tracer.pid), "the tracer does not begin")
    until(there, f"fewer than {n} probes")


def stopped_psns(pid):
    """The process is stopped, and its device has sent all it had: the send PSN of each queue pair."""
    os.kill(pid, signal.SIGSTOP)
    before = None
    while True:
        now = {n: q["sq-psn"] for n, q in kernels_qps(pid).items()}
        if now and now == before:
            return now
        before = now
        time.sleep(1.5) # more than a retransmission takes


def stands_in(pid):
    """The file in whose code a stopped process is."""
    at = int(open(f"/proc/{pid}/syscall").read().split()[-1], 16)
    for row in map(str.split, open(f"/proc/{pid}/maps")):
        begin, end = (int(x, 16) for x in row[0].split("-"))
        if begin <= at < end:
            return row[5] if len(row) > 5 else ""
    return ""


def totals_at(rtr, ns):
    """The last totals of each queue pair reported before `ns`."""
    seen = {}
    for r in verbs_records.records(rtr):
        if r["kind"] == "stats" and r["ts"] <= ns:
            seen[r["qpn"]] = r
    return seen


def qps_reported(rtr):
    out = subprocess.run([RANKTRACE, "replay", "-q", "--qps", rtr], capture_output=True, text=True)
    return [json.loads(line) for line in out.stdout.splitlines()]


def sending(pid, n_qps):
    """So many of its queue pairs have sent something between two samples."""
    before = kernels_qps(pid)
    time.sleep(0.2)
    now = kernels_qps(pid)
    return sum(q["state"] == "RTS" and n in before
               and q["sq-psn"] != before[n]["sq-psn"] for n, q in now.items()) == n_qps


class Held:
    """A process that is stopped when two thirds of its posts were sent: where programs spin on two emulated CPUs,
    attaching to one may take longer than it runs."""
    def __init__(self, pid, n):
        self.pid, self.n, self.is_held = pid, n, False
        self.first = {q: row["sq-psn"] for q, row in kernels_qps(pid).items()}

    def look(self):
        sent = [(row["sq-psn"] - self.first[q]) % (1 << 24) for q, row in kernels_qps(self.pid).items()
                if q in self.first]
        if not self.is_held and sent and max(sent) > self.n * 2 // 3:
            self.is_held = True
            os.kill(self.pid, signal.SIGSTOP)

    def go(self):
        """Something is to be seen before the stop."""
        os.kill(self.pid, signal.SIGCONT)
        time.sleep(0.3)


def late(name, tool, n, n_qps, n_probes):
    rtr = f"/tmp/{name}.rtr"
    s, c = pair(tool)
    until(lambda: sending(c.pid, n_qps), "it does not send")
    os.kill(c.pid, signal.SIGSTOP) # while the tracer's programs load: that takes longer here than the whole run
    held = Held(c.pid, n)
    tracer = attach(rtr, c.pid)
    until(lambda: tracer.poll() is not None or loaded(tracer.pid), "the tracer does not begin", every=0.01)
    os.kill(c.pid, signal.SIGCONT)
    wait_probes(tracer, rtr, n_probes, held.look)
    held.go()
    psns, inside = stopped_psns(c.pid), stands_in(c.pid)
    spare = 0 if inside == os.readlink(f"/proc/{c.pid}/exe") else 1 # may be inside of a post
    resumed_ns = time.monotonic_ns()
    os.kill(c.pid, signal.SIGCONT)
    out = c.communicate(timeout=200)[0]
    s.wait(60)
    tracer.wait(60)
    first = {int(q, 16): int(p, 16) for q, p in re.findall(r"local address: +LID \w+,? QPN (\w+),? PSN (\w+)", out)}
    then, end = totals_at(rtr, resumed_ns), verbs_records.stats(rtr)
    reported = {q["qp"]: q for q in qps_reported(rtr) if q["pid"] == c.pid}
    for qpn, psn in psns.items():
        before = (psn - first[qpn]) % (1 << 24)
        now, last = then.get(qpn), end.get(qpn)
        if not now or not last:
            sys.exit(f"{name}: QP {qpn}: no totals: {open(rtr + '.err').read()}")
        posts, done = last["posts"] - now["posts"], last["send_done"] - last["signalled"]
        print(f"{name}: {'held, ' if held.is_held else ''}QP {qpn}: {before} packets until it was stopped by the "
              f"kernel's count, {now['posts']} posts of them seen, "
              f"{posts} after it; together {before + posts} of {n}, stopped in "
              f"{os.path.basename(inside)}; completions of {done} signalled before the attach", flush=True)
        short, spare = n - before - posts, spare - (n - before - posts)
        whole = last["post_bytes"] == last["posts"] * SIZE and not last["cut"] and not last["errors"]
        if short not in (0, 1) or spare < 0 or not whole:
            sys.exit(f"{name}: {last}\n{open(rtr + '.err').read()}")
        if not 0 < now["posts"] <= before or not 0 <= done <= DEPTH:
            sys.exit(f"{name}: {now['posts']} posts seen of {before}; {done} completions more than were signalled")
        if last["from_start"]:
            sys.exit(f"{name}: it claims to have been there from the start")
        kernel = reported[qpn]
        if kernel["peer_qp"] is None or kernel["device"] != "rxe0" or kernel["state"] != "ready to send":
            sys.exit(f"{name}: {kernel}")


def both(name, tool, n):
    """Both ends are ranks of the session: each knows the other."""
    rtr = f"/tmp/{name}.rtr"
    line = (f"RANK=0 WORLD_SIZE=2 {' '.join(tool)} > /dev/null & "
            f"while ! grep -q :4853.*:0000.0A /proc/net/tcp /proc/net/tcp6; do sleep 0.2; done; "
            f"RANK=1 WORLD_SIZE=2 {' '.join(tool)} {ADDRESS} > /dev/null; wait")
    out = subprocess.run([RANKTRACE, "record", *BURST, "-o", rtr, "--", "bash", "-c", line], capture_output=True,
                         text=True, timeout=200)
    rows = {q["rank"]: q for q in qps_reported(rtr)}
    if set(rows) != {0, 1}:
        sys.exit(f"{name}: {rows} {out.stderr}")
    for rank, q in rows.items():
        print(f"{name}: rank {rank} QP {q['qp']} to {q['peer_gid']} QP {q['peer_qp']}: rank {q['peer_rank']} by "
              f"{q['peer_by']}", flush=True)
        if (q["peer_rank"], q["peer_by"], q["peer_gid"], q["device"]) != (1 - rank, "address", ADDRESS, "rxe0"):
            sys.exit(f"{name}: {q}")
    if rows[1]["totals"]["posts"] != n or not rows[1]["totals"]["from_start"]:
        sys.exit(f"{name}: {rows[1]}\n{out.stderr}")


def both_late(name, tool):
    """The same, attached to later: the kernel tells numbers, and both fit."""
    rtr = f"/tmp/{name}.rtr"
    env = [dict(os.environ, RANK=str(r), WORLD_SIZE="2") for r in (0, 1)]
    s, c = pair(tool, env)
    until(lambda: any(q["state"] == "RTS" for q in kernels_qps(c.pid).values()), "no queue pair is ready")
    tracer = attach(rtr, s.pid, c.pid)
    c.communicate(timeout=200)
    s.wait(60)
    tracer.wait(60)
    rows = {q["rank"]: q for q in qps_reported(rtr)}
    for rank in (0, 1):
        q = rows.get(rank) or sys.exit(f"{name}: {rows} {open(rtr + '.err').read()}")
        print(f"{name}: rank {rank} QP {q['qp']} to QP {q['peer_qp']}: rank {q['peer_rank']} by {q['peer_by']}",
              flush=True)
        if (q["peer_rank"], q["peer_by"]) != (1 - rank, "numbers"):
            sys.exit(f"{name}: {q}")


def moved(name, n, n_provider):
    """The client's provider is a copy at another place, without symbols and with another build-id: a second version in
    one session. Its first run makes it known."""
    original = subprocess.run("ls /usr/lib/*/libibverbs/librxe-rdmav*.so", shell=True, capture_output=True,
                              text=True).stdout.split()[0]
    suffix = re.search(r"-rdmav\d+\.so$", original)[0]
    os.makedirs("/tmp/elsewhere", exist_ok=True)
    os.makedirs("/tmp/conf", exist_ok=True)
    copy = "/tmp/elsewhere/libcopy" + suffix
    shutil.copy(original, copy)
    subprocess.run(["strip", "--strip-all", copy], check=True)
    data = bytearray(open(copy, "rb").read())
    at = data.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0") + 16
    data[at] ^= 0xff
    open(copy, "wb").write(data)
    open("/tmp/conf/copy.driver", "w").write("driver /tmp/elsewhere/libcopy\n")
    rtr, tool = f"/tmp/{name}.rtr", " ".join(perf("ib_write_bw", n))
    line = (f"{tool} > /dev/null & while ! grep -q :4853.*:0000.0A /proc/net/tcp /proc/net/tcp6; do sleep 0.2; done; "
            f"unshare -m sh -c 'mount --bind /tmp/conf /etc/libibverbs.d && exec {tool} {ADDRESS}' > /dev/null; wait; ")
    out = subprocess.run([RANKTRACE, "record", *BURST, "-o", rtr, "--", "bash", "-c", line + line], capture_output=True,
                         text=True, timeout=300)
    print(rdma_when.text(rtr), flush=True)
    libs = {}
    for path, probes in verbs_records.libs(rtr):
        if "rdmav" in path and probes:
            libs.setdefault(os.path.basename(path), set()).add(probes)
    want = {os.path.basename(original): {n_provider}, os.path.basename(copy): {n_provider}}
    # server, client, server, client
    totals = [q["totals"] or {} for q in sorted(qps_reported(rtr), key=lambda q: q["pid"])]
    print(f"{name}: {libs}, posts {[t.get('posts') for t in totals]}", flush=True)
    if libs != want or len(totals) != 4 or totals[3].get("posts") != n or not totals[3]["from_start"]:
        sys.exit(f"{name}: probed {libs}, not {want}; {totals}\n{out.stdout}{out.stderr}")
    if totals[1].get("from_start") and totals[1]["posts"] != n:
        sys.exit(f"{name}: the first run is not what it says: {totals[1]}")


def main():
    rdma_guest.device()
    learn = rdma_guest.Session("probes")
    learn.run(perf("ib_write_bw", 100))
    libs = list(verbs_records.libs(learn.end()))
    n_probes, n_provider = sum(n for _, n in libs), sum(n for path, n in libs if "rdmav" in path)
    for tool, n, n_qps in (("ib_write_bw", 100000, 1), ("ib_write_bw", 30000, 4), ("ib_read_bw", 60000, 1),
                           ("ib_send_bw", 60000, 1), ("ib_send_lat", 20000, 1)):
        late(f"late-{tool}-q{n_qps}", perf(tool, n, *(["-q", str(n_qps)] if n_qps > 1 else [])), n, n_qps, n_probes)
    pong = ["ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-n", "20000", "-s", str(SIZE)]
    late("late-rc_pingpong", pong, 20000, 1, sum(n for path, n in libs if "rdmacm" not in path)) # it does not map that
    both("both", perf("ib_write_bw", 300), 300)
    both_late("both-late", perf("ib_write_bw", 300000))
    moved("moved", 300, n_provider)
    print("rdma_guest_late: passed", flush=True)


if __name__ == "__main__":
    main()
