# SPDX-License-Identifier: Apache-2.0
"""When, after its exec, what came about that makes a process' first post seen: python3 rdma_when.py RECORDING [PID].
Milliseconds after the exec: told (the session knows it), attach GROUP N (begin to end of placing N probes), table (the
provider came to light), qp (states it was made ready for), posts (first to last of each queue pair), exit. """
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../aid"))
import rtr

RECORD_PROC, RECORD_LIB, TABLE = 3, 5, 7
FORK, EXEC, EXIT = 1, 2, 3
GROUPS = ("needed", "calls", "polls", "posts", "burst")
STATES = ("reset", "init", "ready to receive", "ready to send", "drained", "error", "error")


def qp(body):
    state = body[24]
    return f"qp {STATES[state] if state < len(STATES) else 'made or gone'}"


def when(path, of=None):
    """{pid: [(ms, what)]}"""
    execs, seen, lib = {}, {}, ""
    for tracer, kind, pid, _, ts, body in rtr.whole_records(path):
        if (tracer, kind) == (rtr.LIFE, EXEC):
            execs[pid] = ts
            seen[pid] = []
        if pid not in execs or of not in (None, pid):
            continue
        note = lambda at, what: seen[pid].append(((at - execs[pid]) / 1e6, what))
        if (tracer, kind) == (rtr.COLLECTOR, RECORD_PROC):
            note(ts, "told")
        elif (tracer, kind) == (rtr.COLLECTOR, RECORD_LIB):
            size = struct.unpack_from("<I", body, 32)[0]
            lib = os.path.basename(body[40:40 + size - 1].decode())
        elif (tracer, kind) == (rtr.COLLECTOR, rtr.RECORD_ATTACH):
            begin, n, by, _, group, _ = struct.unpack_from("<QIBBBB", body)
            if by == rtr.VERBS:
                note(begin, f"attach {GROUPS[group]} {n} to {lib} until {(ts - execs[pid]) / 1e6:.1f}")
        elif (tracer, kind) == (rtr.VERBS, TABLE):
            note(ts, "table")
        elif (tracer, kind) == (rtr.VERBS, 1):
            note(ts, qp(body))
        elif (tracer, kind) == (rtr.VERBS, 2) and (first := struct.unpack_from("<Q", body, 80)[0]):
            qpn, posts, last = struct.unpack_from("<8xI4xQ64xQ", body)
            seen[pid] = [x for x in seen[pid] if not x[1].startswith(f"posts of {qpn}:")]
            note(first, f"posts of {qpn}: {posts} until {(last - execs[pid]) / 1e6:.1f}")
        elif (tracer, kind) == (rtr.LIFE, EXIT) and struct.unpack_from("<iI", body)[1]:
            note(ts, "exit")
    return seen


def text(path, of=None):
    lines = []
    for pid, rows in when(path, of).items():
        if any(what != "told" and what != "exit" for _, what in rows):
            lines.append(f"pid {pid}: " + "; ".join(f"{ms:.1f} {what}" for ms, what in sorted(rows)))
    return "\n".join(lines)


if __name__ == "__main__":
    print(text(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None))
