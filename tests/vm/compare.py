# SPDX-License-Identifier: Apache-2.0
"""A job's own log against a recording of it, which may be of another machine: compare.py OPS.jsonl JOB.rtr."""
import json
import os
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "aid"))
import job  # noqa: E402
import rtr  # noqa: E402

NCCL_INIT = 3


def by_value(path):
    """ncclCommInitRank's id, 128 bytes by value, and the rank behind it: each id's ranks are complete. How many
    communicators."""
    ranks, sizes = {}, {}
    for tracer, kind, _, _, body in rtr.records(path):
        if (tracer, kind) != (rtr.NCCL, NCCL_INIT):
            continue
        _, nranks, rank, _, _, _, has_id = struct.unpack_from("<QiiiiBB", body)
        if has_id:
            unique_id = body[32:160]
            ranks.setdefault(unique_id, []).append(rank)
            sizes[unique_id] = nranks
    job.check(ranks, "no communicator creation with an id was recorded")
    for unique_id, seen in ranks.items():
        job.check(any(unique_id) and sorted(seen) == list(range(sizes[unique_id])),
                  f"ranks {sorted(seen)} of {sizes[unique_id]} created id {unique_id[:16].hex()}")
    return len(ranks)


def exact(ops_log, path):
    """Text for who reads the result; fails the test otherwise."""
    truth = job.lines(ops_log)
    out = subprocess.run([job.RANKTRACE, "replay", "-q", "--ops", path], capture_output=True, text=True)
    job.check(out.returncode in (0, 1), f"replay failed: {out.stderr}")
    missing, extra = job.compare_ops(truth, [json.loads(line) for line in out.stdout.splitlines()])
    job.check(truth and not missing and not extra,
              f"{len(truth)} operations, {len(missing)} missing: {missing[:3]}, {len(extra)} extra: {extra[:3]}")
    return f"{len(truth)} operations, 0 missing, 0 extra; {by_value(path)} ids by value with all their ranks"


if __name__ == "__main__":
    print(f"PASSED count: {exact(*sys.argv[1:])}")
