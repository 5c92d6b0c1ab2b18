# SPDX-License-Identifier: Apache-2.0
"""Recordings as inputs of fuzz_records: seeds.py RECORDING... DIRECTORY. See record_next() there for the bytes."""
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


def seed(path, skip):
    """Of four processes, from the record `skip` on; what comes at the start of a session comes first always."""
    out, now, tgids = b"", 0, {}
    for n, (tracer, kind, tid, tgid, ts, body) in enumerate(records(path)):
        if (skip and tracer and n < skip) or len(body) > 255 or (tgid not in tgids and len(tgids) == 4):
            continue
        who = tgids.setdefault(tgid, len(tgids)) + 4 * (tid % 8)
        ms = min(max(ts // 10**6 - now, 0), 255) if now else 1
        now = ts // 10**6
        out += bytes([tracer & 7 | 64, kind & 31, len(body), who, ms]) + body
        if len(out) > ROOM:
            break
    return out


*paths, where = sys.argv[1:]
for path in paths:
    for skip in 0, 500, 2000:
        with open(os.path.join(where, f"{os.path.basename(path)}.{skip}"), "wb") as f:
            f.write(seed(path, skip))
