# SPDX-License-Identifier: Apache-2.0
"""Records of the cuda tracer, read as tracers/cuda/cuda.h describes them."""
import os
import re
import struct

import rtr

CUDA_H = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tracers/cuda/cuda.h")

FIELDS = { # of each kind of the cuda tracer, behind the header
    1: ("sync_begin", "<QQiIQII", ("handle", "begin", "result", "sync", "bytes", "fn", "_")),
    2: ("sync_end", "<QQiIQII", ("handle", "begin", "result", "sync", "bytes", "fn", "_")),
    3: ("event_record", "<QQiI", ("event", "stream", "result", "fn")),
    4: ("event_wait", "<QQiI", ("event", "stream", "result", "fn")),
    5: ("query", "<QQiI", ("event", "stream", "result", "fn")),
    6: ("call", "<QQiI", ("begin", "bytes", "result", "fn")),
    7: ("open", "<QQiI", ("begin", "bytes", "result", "fn")),
    8: ("stream_query", "<QQiI", ("event", "stream", "result", "fn")),
    9: ("elapsed", "<QQif", ("start", "end", "result", "ms")),
    10: ("capture", "<QQQQQiHBB", ("begin", "stream", "graph", "exec", "parent", "result", "fn", "capture", "_")),
    11: ("launch", "<QQII", ("stream", "bytes", "fn", "_")),
    12: ("counts", "<QQQQ", ("launches", "copies", "copy_bytes", "sets")),
}


def functions():
    """Name by number, from the header."""
    with open(CUDA_H) as f:
        return {int(n): name for n, name in re.findall(r"X\((\d+), (cu\w+), \w+\)", f.read())}


def records(path):
    """As dictionaries, in order."""
    names = functions()
    for tracer, kind, _, ts, body in rtr.records(path):
        if tracer != rtr.CUDA:
            continue
        name, layout, fields = FIELDS[kind]
        r = dict(zip(fields, struct.unpack_from(layout, body)), kind=name, ts=ts)
        if "fn" in r:
            r["fn"] = names[r["fn"]]
        yield r
