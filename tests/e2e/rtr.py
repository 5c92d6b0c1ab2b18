# SPDX-License-Identifier: Apache-2.0
"""Records of a recording, read without any code of the program (schemas/recording.md)."""
import struct
import zlib

FACT, LIFE, NCCL, SCHED, CUDA = 0, 1, 2, 3, 4
FACT_LOSS, NCCL_GROUP = 6, 5
RING_CRITICAL, RING_NORMAL, RING_BULK = 0, 1, 2


def records(path):
    """(tracer, kind, cpu, time, bytes behind the header) of each record, to the last whole chunk."""
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
            size, tracer, kind, _, _, cpu, ts = struct.unpack_from("<HBBIIIQ", chunk, o)
            yield tracer, kind, cpu, ts, chunk[o + 24:o + size]
            o += size
            n -= 1
        assert n == 0


def losses(path):
    """Records lost, by class of ring; and the sums that the facts themselves carry."""
    lost, total = {}, {}
    for tracer, kind, _, _, body in records(path):
        if (tracer, kind) == (FACT, FACT_LOSS):
            n, so_far, ring = struct.unpack_from("<QQI", body)
            lost[ring] = lost.get(ring, 0) + n
            total[ring] = so_far
    assert lost == total, (lost, total)
    return lost
