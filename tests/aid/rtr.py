# SPDX-License-Identifier: Apache-2.0
"""Records of a recording, read without any code of the program (schemas/recording.md)."""
import struct
import zlib

COLLECTOR, LIFE, NCCL, SCHED, CUDA = 0, 1, 2, 3, 4
SCHED_STORAGE = 6
VERBS = 6
RECORD_TICK, RECORD_LOSS, RECORD_ATTACH, RECORD_TIER, NCCL_GROUP = 2, 6, 8, 14, 5
RING_CRITICAL, RING_NORMAL, RING_BULK = 0, 1, 2


def whole_records(path):
    """(tracer, kind, pid, cpu, time, bytes behind the header) of each record, to the last whole chunk."""
    with open(path, "rb") as f:
        data = f.read()
    assert data[:8] == b"RRANKtr\n", path
    at = 16
    while at + 24 <= len(data):
        magic, raw, packed, n, crc, _ = struct.unpack_from("<6I", data, at)
        body = data[at + 24:at + 24 + packed]
        if magic != 0x4B4E4843 or len(body) < packed or zlib.crc32(body) != crc:
            return
        at += 24 + packed
        chunk = zlib.decompress(body)
        assert len(chunk) == raw
        o = 0
        while o < raw:
            size, tracer, kind, _, tgid, cpu, ts = struct.unpack_from("<HBBIIIQ", chunk, o)
            yield tracer, kind, tgid, cpu, ts, chunk[o + 24:o + size]
            o += size
            n -= 1
        assert n == 0


def records(path):
    """The same without the pid."""
    for tracer, kind, _, cpu, ts, body in whole_records(path):
        yield tracer, kind, cpu, ts, body


def attached_ns(path, of_tracer):
    """For each process: when the last probe of this tracer was in."""
    return {tgid: ts for tracer, kind, tgid, _, ts, body in whole_records(path)
            if (tracer, kind) == (COLLECTOR, RECORD_ATTACH) and body[12] == of_tracer}


def losses(path):
    """Records lost, by class of ring; and the sums that the records themselves carry."""
    lost, total = {}, {}
    for tracer, kind, _, _, body in records(path):
        if (tracer, kind) == (COLLECTOR, RECORD_LOSS):
            n, so_far, ring = struct.unpack_from("<QQI", body)
            lost[ring] = lost.get(ring, 0) + n
            total[ring] = so_far
    assert lost == total, (lost, total)
    return lost


def longest_gap_s(path, from_ns, to_ns):
    """Longest time without a tick that falls, wholly or in part, between the two; from the last tick before to the
    first after. None where no tick lies on either side."""
    ticks = [ts for tracer, kind, _, ts, _ in records(path) if (tracer, kind) == (COLLECTOR, RECORD_TICK)]
    gaps = [b - a for a, b in zip(ticks, ticks[1:]) if b > from_ns and a < to_ns]
    return max(gaps) / 1e9 if gaps else None
