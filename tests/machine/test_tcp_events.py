# SPDX-License-Identifier: Apache-2.0
"""Tracer tcp counts what went wrong on a rank's connections as the rank itself knows it: connects refused, resets sent
and received, by sockets opened under the tracer's eyes, before it came, and accepted, and from a rank's first moment
on; on a lossy link, segments sent again as the kernel counts them. A process that is no target leaves no record."""
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job
import rtr
import tcp_links
from net_hosts import Hosts

TCP = 7
AGAIN, ENDED, RESET_CAME, RESET_WENT = 1, 2, 3, 4
ECONNREFUSED = 111
RANK = """
import os, signal, socket, struct, sys, time
def pair():
    s = socket.create_server(("127.0.0.1", 0))
    c = socket.create_connection(s.getsockname())
    return s, c, s.accept()[0]
def reset(s):  # a reset instead of a farewell
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
old, old_reset = pair(), pair()
print("up", flush=True)
sys.stdin.readline()
refused = int(sys.argv[1])
for _ in range(refused):
    s = socket.socket()
    s.bind(("127.0.0.1", 0)) # and nobody listens there
    try: socket.create_connection(s.getsockname())
    except ConnectionRefusedError: pass
for i in range(int(sys.argv[2])):
    new = pair()
    reset(new[1 + i % 2])
reset(old_reset[1])
for s in pair(): s.close()
for s in old: s.close()
print("done", flush=True)
sys.stdin.readline()
"""


def events(path, pid):
    """(kind, state, error, segments) of each record of that process; and of others."""
    mine, others = [], 0
    for tracer, kind, tgid, _, _, body in rtr.whole_records(path):
        if tracer != TCP:
            continue
        _, _, _, state, _, n, error = struct.unpack_from("<HHHBBII", body)
        if tgid == pid:
            mine.append((kind, state, error, n))
        else:
            others += 1
    return mine, others


def rank(refused, resets):
    return subprocess.Popen([sys.executable, "-c", RANK, str(refused), str(resets)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True,
                            env={**os.environ, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"})


def calls(tracer, *processes):
    """They do what they are to do, and the session ends."""
    for p in processes:
        p.stdin.write("\n")
        p.stdin.flush()
        p.stdout.readline()
    time.sleep(1)
    tracer.send_signal(signal.SIGINT)
    tracer.wait(60)
    for p in processes:
        p.kill()
        p.wait()


def wait_known(tracer, path, connections, timeout=120):
    """Until the tracer says that it knows so many connections that were open before it."""
    end = time.monotonic() + timeout
    while time.monotonic() < end and tracer.poll() is None:
        with open(path) as f:
            if any(int(n) >= connections for n in re.findall(r"tcp: (\d+) connections are known", f.read())):
                return
        time.sleep(0.1)
    with open(path) as f:
        job.fail(f"the connections of before are not known within {timeout} s: {f.read()}")


def known_numbers(rng):
    refused, resets = rng.randrange(3, 20), rng.randrange(3, 20)
    print(f"{refused} connects refused, {resets} resets", flush=True)
    target, bystander = rank(refused, resets), rank(2, 2)
    path = f"/tmp/ranktrace-tcp-events-{os.getpid()}.rtr"
    for p in target, bystander:
        p.stdout.readline()
    with tempfile.NamedTemporaryFile(mode="r", prefix="ranktrace-tcp-events-") as log:
        tracer = subprocess.Popen([job.RANKTRACE, "record", "-vv", "-o", path, "--pid", str(target.pid)], stderr=log)
        wait_known(tracer, log.name, 4)
        calls(tracer, target, bystander)
        log.seek(0)  # the tracer wrote by the same open file
        err = log.read()
    mine, others = events(path, target.pid)
    os.unlink(path)
    count = {kind: sum(e[0] == kind for e in mine) for kind in (AGAIN, ENDED, RESET_CAME, RESET_WENT)}
    failed = [e for e in mine if e[:3] == (ENDED, 2, ECONNREFUSED)]
    job.check(len(failed) == refused, f"{len(failed)} connects refused of {refused}: {mine}\n{err}")
    # a refused connect gets a reset; so does the peer of each connection that is reset, the one of before the attach
    # too
    job.check(count[RESET_CAME] == refused + resets + 1, f"{count[RESET_CAME]} resets came: {mine}")
    broken = [e for e in mine if e[0] == ENDED and e[1] != 2]
    job.check(len(broken) == 2 * (resets + 1), f"{len(broken)} connections broken: {mine}")
    job.check(not count[AGAIN] and not others, f"{count}, {others} of others: {mine}")


AT_START = """
import socket, sys, time
for i in range(int(sys.argv[1])):
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    try: socket.create_connection(s.getsockname())
    except ConnectionRefusedError: time.sleep(0.02)
time.sleep(0.5)
"""


def at_start(rng):
    """A store that is not up yet refuses a rank again and again, from its first moment on."""
    refused = rng.randrange(3, 20)
    path = f"/tmp/ranktrace-tcp-start-{os.getpid()}.rtr"
    out = subprocess.run([job.RANKTRACE, "record", "-o", path, "--", sys.executable, "-c", AT_START, str(refused)],
                         capture_output=True, text=True,
                         env={**os.environ, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"})
    failed = sum((tracer, kind) == (TCP, ENDED) and body[6] == 2
                 for tracer, kind, _, _, _, body in rtr.whole_records(path))
    os.unlink(path)
    job.check(failed == refused, f"{failed} connects refused of {refused} at the start: {out.stderr}")


def sent_again(hosts, names):
    total = 0
    for name in names:
        text = subprocess.run(["ip", "netns", "exec", name, "cat", "/proc/net/snmp"], capture_output=True,
                              text=True).stdout
        keys, values = [line.split()[1:] for line in text.splitlines() if line.startswith("Tcp:")]
        total += int(dict(zip(keys, values))["RetransSegs"])
    return total


def lossy(rng, number):
    t = tcp_links.Trial(rng, number, ["loss"], shape="short", tier="trace", ranks=tcp_links.RANKS)
    with Hosts(t.ranks) as hosts:
        j = t.start(hosts)
        t.begun(j)
        hosts.link(t.victim, loss=0.05)
        time.sleep(8)
        hosts.link(t.victim)
        time.sleep(2)
        truth = sent_again(hosts, hosts.names[:t.ranks])
        j.stop()
    seen = sum(n for tracer, kind, _, _, _, body in rtr.whole_records(j.rtr) if (tracer, kind) == (TCP, AGAIN)
               for n in struct.unpack_from("<I", body, 8))
    print(f"  {seen} segments sent again of the kernel's {truth}")
    job.check(truth > 20 and 0.7 * truth <= seen <= 1.3 * truth, f"{seen} of {truth}")


job.need_root()
rng, number = job.seed()
known_numbers(rng)
at_start(rng)
if job.LONG:  # 18 seconds
    tcp_links.need_links()
    lossy(rng, number)
