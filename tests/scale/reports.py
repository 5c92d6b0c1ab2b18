# SPDX-License-Identifier: Apache-2.0
"""Reports of agents (schemas/cluster.proto) of a job of TP8 x PP16 x DP80 on hosts with 8 ranks, fast: what changes
from second to second has the same length everywhere, and is joined into what does not change."""
import struct

PER_HOST, COMMS = 8, 4
SEC = 10**9


def varint(n, width=0):
    """Of `width` bytes at least: the format allows zeros behind."""
    out = bytearray()
    while n > 127 or len(out) + 1 < width:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


def number(field, n, width=0):
    return varint(field << 3) + varint(n, width)


def signed(field, n):
    return number(field, n << 1 ^ n >> 63)


def fixed(field, n):
    return varint(field << 3 | 1) + struct.pack("<Q", n)


def text(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def counters(n, since_ns):
    """All collectives of a member are AllReduces; nothing moved for so long."""
    packed = varint(0) * 4 + varint(n, 5)
    return text(6, packed) + number(7, SEC // 10, 6) + number(8, max(since_ns, SEC // 10), 6) + \
        number(9, max(since_ns, SEC // 10) + SEC, 6)


def state(asleep, since_ns):
    return number(3, 3 if asleep else 1) + number(4, since_ns, 6) + number(5, SEC // 10, 6) + \
        number(11, SEC // 10, 6) + text(12, "futex_wait_queue")


class Host:
    def __init__(self, i, job, hosts):
        self.i, self.name, self.sequence = i, f"node-{i}", 0
        self.ranks = range(i * PER_HOST, (i + 1) * PER_HOST)
        self.procs = [self.proc(r, hosts, job) for r in self.ranks]
        self.fixed = text(2, self.name) + text(3, f"boot-{i}") + fixed(4, 1 + i) + number(10, 3 * SEC // 2) + \
            number(11, 90 * SEC) + text(15, "load")

    def members(self, rank, hosts):
        """Hash, rank, size of each of its communicators: world, tensor, pipeline, data parallel."""
        tp, stage, replica = rank % 8, self.i % 16, self.i // 16
        return ((1, rank, hosts * 8), (1000 + self.i, tp, 8), (10**6 + replica * 8 + tp, stage, 16),
                (10**7 + stage * 8 + tp, replica, hosts // 16))

    def proc(self, rank, hosts, job):
        """What stands before each of its members' counters and before its thread's state, and what is behind."""
        parts, tail_len = [], len(counters(0, 0))
        for k, (hash_, r, size) in enumerate(self.members(rank, hosts)):
            own = fixed(1, 0x1000 + k) + fixed(2, hash_) + signed(3, r) + signed(4, size) + signed(5, rank % 8)
            parts.append(varint(24 << 3 | 2) + varint(len(own) + tail_len) + own)
        own = number(1, 1000 + rank % 8) + text(2, "python3")
        thread = varint(25 << 3 | 2) + varint(len(own) + len(state(False, 0))) + own
        head = number(1, 1000 + rank % 8) + fixed(2, SEC) + signed(5, rank) + signed(6, rank % 8) + \
            signed(7, hosts * 8) + number(9, 1001) + text(11, job) + text(14, "python3")
        size = len(head) + sum(map(len, parts)) + COMMS * tail_len + len(thread) + len(state(False, 0))
        parts[0] = varint(12 << 3 | 2) + varint(size) + head + parts[0]
        return parts + [thread]

    def report(self, now_ns, tails, thread, finding):
        """`tails`: of each of its ranks' members, the counters."""
        self.sequence += 1
        body = thread.join([tails[k].join(p) if isinstance(tails[k], bytes) else
                            b"".join(x for pair in zip(p, tails[k] + [b""]) for x in pair)
                            for k, p in enumerate(self.procs)] + [b""])
        return number(1, 1) + self.fixed + number(5, self.sequence) + fixed(6, now_ns) + body + finding
