# SPDX-License-Identifier: Apache-2.0
"""Recordings as inputs of fuzz_records: seeds.py RECORDING... DIRECTORY. See record_next() there for the bytes. And a
job that hangs on three hosts as an input of fuzz_merge: seeds.py DIRECTORY."""
import os
import struct
import sys
import zlib

ROOM = 8000  # of an input


def records(path):
    data, at = open(path, "rb").read(), 16
    while at + 24 <= len(data):
        _, _, packed, n, _, _ = struct.unpack_from("<IIIIII", data, at)
        chunk, o = zlib.decompress(data[at + 24:at + 24 + packed]), 0
        at += 24 + packed
        for _ in range(n):
            size, tracer, kind, tid, tgid, _, ts = struct.unpack_from("<HBBIIIQ", chunk, o)
            yield tracer, kind, tid, tgid, ts, chunk[o + 24:o + size]
            o += size


def budget(who, n):
    """Probes taken from a process, given back, or kept: no recording here has any."""
    what = n % 4
    return bytes([64, 15, 40, who, 1]) + struct.pack("<IIQQIIBBBBI", 0, 10000, 61000, 70000, 3800, 3800, what,
                                                     1 + n % 2, what & 1 and 2 << n % 2, 0, 0)


def seed(path, skip):
    """Of four processes, from the record `skip` on; what comes at the start of a session comes first always."""
    out, now, tgids = b"", 0, {}
    for n, (tracer, kind, tid, tgid, ts, body) in enumerate(records(path)):
        if (skip and tracer and n < skip) or len(body) > 255 or (tgid not in tgids and len(tgids) == 4):
            continue
        who = tgids.setdefault(tgid, len(tgids)) + 4 * (tid % 8)
        ms = min(max(ts // 10**6 - now, 0), 255) if now else 1
        now = ts // 10**6
        out += bytes([tracer & 7 | 64, kind & 63, len(body), who, ms]) + body
        if n % 50 == 49:
            out += budget(who, n // 50)
        if len(out) > ROOM:
            break
    return out


COLLECTOR, SCHED, START, TICK, PROC, STOP, SAMPLE, SLEEP = 0, 3, 1, 2, 3, 7, 10, 3
PORT, PORT_LOOK, PORT_USERS = 27, 28, 29
TCP, TCP_LOOK, TCP_GIVEN = 33, 34, 28  # as many counters as an input's records have room for


def record(host, tracer, kind, rank, body, ms=0):
    """Rank `rank` of the host is its process 10 + rank, and that one's main thread."""
    return bytes([tracer | 64, kind, len(body), rank + 4 * rank | host << 5, ms]) + body


def look(host, hosts, behind):
    """Two ranks on each host; all but one have entered the sixth collective."""
    out = b""
    for rank in range(2):
        counters = [0, 0, 0, 0, 5 if (host, rank) == behind else 6, 0, 0, 0]
        out += record(host, COLLECTOR, SAMPLE, rank,
                      struct.pack("<QQiiiI8QiiIB3x", 4096, 77, 2 * host + rank, 2 * hosts, rank, 5, *counters,
                                                            0, 0, 0, 7))
        out += record(host, SCHED, 1, rank, struct.pack("<6QII2Q16s", 10**9, 0, 0, 0, 0, 0, SLEEP, 0, 0, 0, b""))
    return out + record(host, COLLECTOR, TICK, 0, b"", 250)


def hung(hosts, behind):
    out = bytes([hosts - 1])
    for host in range(hosts):
        name = f"node{host}".encode() + b"\0"
        out += record(host, COLLECTOR, START, 0,
                      struct.pack("<4QII", 10**18, 25 * 10**7, 25 * 10**7, 9 * 10**10, 1, len(name)) + name, 1)
        for rank in range(2):
            texts = b"train\0python\0\0\0"
            out += record(host, COLLECTOR, PROC, rank,
                          struct.pack("<QIIiiiBBBx4H", 5, 1, 10 + rank, 2 * host + rank, rank, 2 * hosts, 1, 0, 0,
                                                              6, 7, 1, 1) + texts)
        out += (look(host, hosts, behind) * 3) + record(host, COLLECTOR, STOP, 0, struct.pack("<Q", 20))
    return out


def ports():
    """Two ports that a rank has open: one loses packets and goes down, the other goes and comes."""
    texts = [b"mlx5_0\0", b"eth0\0", b"0000:1b:00.0\0", b"0x15b3:0x1021\0", b"Ethernet\0"]
    proc = struct.pack("<QIIiiiBBBx4H", 5, 1, 10, 0, 0, 1, 1, 0, 0, 6, 7, 1, 1) + b"train\0python\0\0\0"
    out, counters = record(0, COLLECTOR, PROC, 0, proc), [10] * 25
    for index in range(2):
        out += record(0, COLLECTOR, PORT, 0,
                      struct.pack("<IIiI5H6x", index, index + 1, 1, 0, *map(len, texts)) + b"".join(texts))
        out += record(0, COLLECTOR, PORT_USERS, 0, struct.pack("<IHH32I", index, 1, 1, 10, *[0] * 31))
    for step in range(24):
        counters = [c + 10**6 for c in counters]
        for index, (state, flags) in enumerate([(1 if 18 < step < 22 else 4, 6), (4, step == 12)]):
            out += record(0, COLLECTOR, PORT_LOOK, 0,
                          struct.pack("<IBBBBQ4I", index, state, 5, flags, 25, 10**9 + step * 10**9, 400000 >> index, 4,
                                                             100000, 50) + struct.pack("<25Q", *counters))
        out += record(0, COLLECTOR, TICK, 0, b"", 250)
    return out


def connections():
    """Both ends of two connections of two ranks: one loses segments and does not move, one is closed and its number
    given again."""
    out = b""
    for rank in range(2):
        proc = struct.pack("<QIIiiiBBBx4H", 5, 1, 10 + rank, rank, rank, 2, 1, 0, 0, 6, 7, 1,
                           1) + b"train\0python\0\0\0"
        out += record(0, COLLECTOR, PROC, rank, proc)
    texts = [b"10.0.0.1\0", b"10.0.0.2\0", b"eth0\0"]

    def identity(index):
        mine = texts if index % 2 == 0 else [texts[1], texts[0], texts[2]]
        pair = (40000 + index // 2, 5000)
        body = struct.pack("<IHHQQQ3H2x", index, *(pair if index % 2 == 0 else pair[::-1]), 7, 8 + index, 1 + index % 2,
                           *map(len, texts))
        return record(0, COLLECTOR, TCP, index % 2, body + b"".join(mine))

    out += b"".join(identity(i) for i in range(4))
    counters = [[0] * TCP_GIVEN for _ in range(4)]
    for step in range(20):
        for index, c in enumerate(counters):
            moves = index != 0 or step < 12
            for i in 2, 3, 4, 13, 14, 15:
                c[i] += 1000 if moves else 0
            c[9] += 50 if index == 0 else 0
            c[7], c[17] = (0, 0) if moves else (5, 3)
            c[23] = 100
            gone = index == 3 and step == 8
            out += record(0, COLLECTOR, TCP_LOOK, 0,
                          struct.pack("<IBBBxQII", index, 1, 6 | gone, TCP_GIVEN, 10**9 + step * 10**9, 50, 0) +
                          struct.pack(f"<{TCP_GIVEN}Q", *c))
            out += identity(3) if gone else b""
        out += record(0, COLLECTOR, TICK, 0, b"", 250)
    return out


*paths, where = sys.argv[1:]
if not paths:
    for hosts in 1, 2, 3:
        with open(os.path.join(where, f"hung{hosts}"), "wb") as f:
            f.write(hung(hosts, (hosts - 1, 1)))
for path in paths:
    for skip in 0, 500, 2000:
        with open(os.path.join(where, f"{os.path.basename(path)}.{skip}"), "wb") as f:
            f.write(seed(path, skip))
if paths:
    with open(os.path.join(where, "ports"), "wb") as f:
        f.write(ports())
    with open(os.path.join(where, "connections"), "wb") as f:
        f.write(connections())
