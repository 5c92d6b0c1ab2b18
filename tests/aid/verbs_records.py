# SPDX-License-Identifier: Apache-2.0
"""Records of the verbs tracer, read as tracers/rdma/verbs.h describes them."""
import struct

import rtr

QP, STATS, ERROR, ASYNC, MR, BURST = 1, 2, 3, 4, 5, 9
RECORD_LIB = 5
STATS_FIELDS = ("context", "qpn", "first_status", "posts", "post_bytes", "signalled", "recv_posts", "send_done",
                "recv_done",
                "recv_bytes", "errors", "first_post_ns", "last_post_ns", "last_done_ns", "in_flight_bytes",
                "latency_ns_sum",
                "latency_n", "latency_ns_max", "cut")
LAYOUTS = {
    QP: ("qp", "<QQIIBBBBBBHiI16s32s",
         ("context", "qp", "qpn", "dest_qpn", "state", "type", "change", "port", "has_gid", "sig_all",
                                         "dlid", "result", "_", "dgid", "device")),
    STATS: ("stats", "<QII16Q8III", STATS_FIELDS + tuple(f"op{i}" for i in range(8)) + ("from_start", "_")),
    ERROR: ("error", "<QQIIII", ("context", "wr_id", "qpn", "status", "vendor_error", "_")),
    ASYNC: ("async", "<QQII32s", ("context", "element", "type", "qpn", "device")),
    BURST: ("burst", "<QQQQQII", ("context", "posts", "bytes", "first_ns", "last_ns", "qpn", "_")),
    MR: ("mr", "<QQQII", ("begin", "addr", "bytes", "fn", "failed")),
}


def records(path):
    for tracer, kind, pid, _, ts, body in rtr.whole_records(path):
        if tracer == rtr.VERBS and kind in LAYOUTS:
            name, layout, fields = LAYOUTS[kind]
            yield dict(zip(fields, struct.unpack_from(layout, body)), kind=name, ts=ts, pid=pid)


def stats(path, of=None):
    """The last totals of each queue pair, of one process or of all."""
    return {r["qpn"]: r for r in records(path) if r["kind"] == "stats" and of in (None, r["pid"])}


def libs(path):
    """(path, probes) of each file that was probed for the tracer."""
    for tracer, kind, _, _, body in rtr.records(path):
        if (tracer, kind) == (rtr.COLLECTOR, RECORD_LIB):
            _, n, build, length, for_tracer, _, _, path_len, _ = struct.unpack_from("<II20sBBBBII", body)
            if for_tracer == rtr.VERBS:
                yield body[40:40 + path_len - 1].decode(), n
