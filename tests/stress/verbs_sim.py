# SPDX-License-Identifier: Apache-2.0
"""Simulated RDMA devices for `ranktrace stress rdma`: tests/stress/libibverbs.c, built here, and a /sys of its own.
What is wrong with a device is in the environment: verbs_settings.h."""
import json
import os
import subprocess
import tempfile

import sys

sys.path.insert(1, sys.path[0] + "/../aid")
import job

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = f"{HERE}/libibverbs.c"
SOURCES = (SOURCE, f"{HERE}/verbs_settings.h", f"{HERE}/verbs_addresses.h")
COUNTERS = ("out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err",
            "req_transport_retries_exceeded", "np_cnp_sent")
SPEED = "400 Gb/sec (4X NDR)"


def library():
    path = os.path.join(os.path.abspath(job.O), "tests/libsimverbs.so.1")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not os.path.exists(path) or os.path.getmtime(path) < max(map(os.path.getmtime, SOURCES)):
        new = f"{path}.{os.getpid()}"
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-D_GNU_SOURCE", "-I.", SOURCE, "-o", new], check=True)
        os.rename(new, path)
    return path


def put(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(f"{text}\n")


class Verbs:
    """n devices sim0... of one host, or of one of several (shared: what their queue pairs are in); name: three other
    letters than sim; boards: what card a device is on, if it is another one than the others'."""

    def __init__(self, n=3, shared=None, speeds=None, nodes="0", name="sim", boards=None, **env):
        self.dir = tempfile.mkdtemp(prefix="ranktrace-rdma-")
        job.dirs.append(self.dir)
        self.n, sys_root = n, f"{self.dir}/sys"
        put(f"{sys_root}/devices/system/node/has_memory", nodes)
        for i in range(n):
            port = f"{sys_root}/class/infiniband/{name}{i}/ports/1"
            put(f"{port}/rate", (speeds or {}).get(i, SPEED))
            put(f"{sys_root}/class/infiniband/{name}{i}/board_id", (boards or {}).get(i, "MT_0000000838"))
            put(f"{sys_root}/class/infiniband/{name}{i}/device/numa_node", 0)
            for gid, kind in enumerate(("IB/RoCE v1", "RoCE v2")):
                put(f"{port}/gid_attrs/types/{gid}", kind)
                put(f"{port}/gid_attrs/ndevs/{gid}", f"{name}net{i}")
            for c in COUNTERS:
                put(f"{port}/hw_counters/{c}", 0)
        self.sys = sys_root
        self.env = dict(os.environ, RANKTRACE_SYSFS=sys_root, RANKTRACE_PROCFS=f"{self.dir}/proc",
                        SIM_VERBS_DEVICES=str(n), SIM_VERBS_NAME=name, LD_PRELOAD=library(),
                        SIM_VERBS_SHARED=shared or f"{self.dir}/shared")
        self.env.update({k: str(v) for k, v in env.items()})

    def argv(self, *args):
        return [os.path.abspath(job.RANKTRACE), "stress", "rdma", "--verbs", library(), "--no-gpus", *map(str, args)]

    def run(self, *args, **kw):
        return subprocess.run(self.argv(*args), capture_output=True, text=True, timeout=120, env=self.env, **kw)

    def lines(self, *args):
        """(exit status, JSON lines by type, standard error)"""
        p = self.run("--json", *args)
        return p.returncode, by_type(p.stdout), p.stderr


def by_type(text):
    by = {}
    for line in map(json.loads, text.splitlines()):
        by.setdefault(line["type"], []).append(line)
    return by
