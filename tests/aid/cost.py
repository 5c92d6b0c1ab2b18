# SPDX-License-Identifier: Apache-2.0
"""What a running ranktrace costs: CPU of the daemon and its helpers, run time of its BPF programs, memory."""
import collections
import contextlib
import glob
import os

BPF_STATS = "/proc/sys/kernel/bpf_stats_enabled"
PROG_TYPE_KPROBE = "2"  # uprobes' programs


def status_kib(pid, key):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(key + ":"))


def children(pid):
    """Of all its threads, and theirs. Read from the process itself: ps reads every process of the host each time."""
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(path) as f:
                found += map(int, f.read().split())
        except OSError:  # it ended meanwhile
            pass
    return found + [g for p in found for g in children(p)]


def cpu_s(pid):
    """Of the process and its descendants, so far, by the name of each."""
    used = collections.Counter()
    for p in [pid] + children(pid):
        try:
            with open(f"/proc/{p}/stat") as f:
                name, _, rest = f.read().partition("(")[2].rpartition(")")
        except FileNotFoundError:
            continue
        used[name] += sum(map(int, rest.split()[11:13])) / os.sysconf("SC_CLK_TCK")
    return used


def bpf_maps(pid):
    """id -> bytes of memory, by the kernel's account, of each BPF map that the process holds."""
    maps = {}
    for path in glob.glob(f"/proc/{pid}/fdinfo/*"):
        try:
            with open(path) as f:
                kv = dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
        except OSError:
            continue
        if "map_id" in kv:
            maps[int(kv["map_id"])] = int(kv["memlock"])
    return maps


def numa_nodes():
    return len(glob.glob("/sys/devices/system/node/node[0-9]*")) or 1


@contextlib.contextmanager
def bpf_stats():
    """Meanwhile the kernel counts runs of BPF programs and their time."""
    with open(BPF_STATS) as f:
        before = f.read()
    try:
        with open(BPF_STATS, "w") as f:
            f.write("1")
        yield
    finally:
        with open(BPF_STATS, "w") as f:
            f.write(before)


def bpf_run(pid):
    """By the kernel's account, of this process' programs within bpf_stats(): seconds, runs, runs of programs on
    probes."""
    progs = {}
    for path in glob.glob(f"/proc/{pid}/fdinfo/*"):
        try:
            with open(path) as f:
                kv = dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
        except OSError:
            continue
        if "run_time_ns" in kv:
            progs[kv["prog_id"]] = (int(kv["run_time_ns"]), int(kv["run_cnt"]), kv["prog_type"] == PROG_TYPE_KPROBE)
    return (sum(p[0] for p in progs.values()) / 1e9, sum(p[1] for p in progs.values()),
            sum(p[1] for p in progs.values() if p[2]))
