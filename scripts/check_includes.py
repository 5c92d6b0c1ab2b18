#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may include whom. Quoted includes are written from a root (the tree, or user/), follow the table below, and make
no circle, of files or of folders; a folder, of tests too, holds at most 30 files. Prints violations; TREE=dir checks
another tree."""
import collections
import fnmatch
import os
import re
import sys

# Folder (the longest prefix counts) -> folders it may include besides itself; "X/*": any folder below X, "X/*/y":
# y of any.
CONTRACTS = ["schemas", "user", "user/base", "tracers"]
INSPECT = ["user/inspect/*"]
WIRE = ["tracers/*/wire"]  # of a tracer its own: check.sh's tracers_apart
DETECT = ["user", "user/base", "user/model", "user/model/storage", "user/detect"]
ALLOWED = {
    "schemas": [],
    "bpf": ["schemas"],
    "tracers": CONTRACTS + INSPECT + ["bpf"] + WIRE,
    "tracers/*/wire": ["schemas"],
    "user": CONTRACTS + WIRE,
    "user/base": [],
    "user/inspect/reader": ["schemas", "user/base"],
    "user/inspect/elf": ["schemas", "user/base", "user/inspect/reader"],
    "user/inspect/discover": ["schemas", "user/base", "user/job", "user/inspect/reader", "user/inspect/elf"],
    "user/inspect/net": ["schemas"] + WIRE,
    "user/inspect/stack": ["schemas", "user/base"] + INSPECT,
    "user/inspect/wait": ["schemas", "user", "user/base"] + INSPECT,
    "user/attach": CONTRACTS + INSPECT + ["bpf", "user/pipeline"],
    "user/job": ["user/base"],
    "user/model": ["user", "user/base", "user/job"],
    "user/model/network": ["user", "user/base", "user/model"],
    "user/model/reported": ["user", "user/base", "user/model"],
    "user/model/steps": ["user", "user/base", "user/model"],
    "user/model/storage": ["user", "user/base", "user/model"],
    "user/model/streams": ["user", "user/base", "user/model"],
    "user/model/torch": ["user", "user/base", "user/model"],
    "user/model/texts": ["user", "user/base", "user/job", "user/model", "user/model/storage"],
    "user/model/snapshot": ["schemas", "user", "user/base", "user/model"],
    "user/detect": DETECT,
    "user/detect/rank": DETECT,
    "user/detect/transfer": DETECT + ["user/detect/rank"],
    "user/detect/gpu": DETECT + ["user/detect/rank"],
    "user/detect/network": DETECT + ["user/detect/rank", "user/detect/transfer"],
    "user/detect/hang": DETECT + ["user/detect/rank", "user/detect/transfer", "user/detect/gpu"],
    "user/detect/straggler": DETECT + ["user/detect/rank", "user/detect/transfer", "user/detect/gpu"],
    "user/detect/host": DETECT + ["user/detect/rank", "user/detect/transfer", "user/detect/hang",
                                  "user/detect/straggler"],
    "user/sink": ["schemas", "user", "user/base", "user/model"],
    "user/sink/lines": ["schemas", "user", "user/base", "user/model", "user/model/storage", "user/sink"],
    "user/sink/perfetto": ["schemas", "user", "user/base", "user/model", "user/model/storage", "user/sink"],
    "user/base/html": ["user/base"],
    "user/sink/report": ["schemas", "user", "user/base", "user/base/html", "user/model", "user/model/storage",
                         "user/sink"],
    "user/recording": ["schemas", "user/base"],
    "user/pipeline": CONTRACTS + ["tracers/*", "user/model", "user/model/*", "user/detect", "user/sink",
                                  "user/recording"],
    "user/flight": ["schemas", "user", "user/base", "user/model", "user/model/*", "user/pipeline", "user/recording",
                    "user/sink",
                    "tracers/process"],
    "user/metrics": ["schemas", "user", "user/base", "user/job", "user/model", "user/model/storage", "user/detect",
                     "user/detect/gpu", "user/sink", "user/pipeline", "user/metrics/web"],
    "user/metrics/web": ["user/base"],
    "user/bus": ["user", "user/base"],
    "user/cluster": ["schemas", "user", "user/base", "user/bus", "user/model", "user/detect", "user/detect/*",
                     "user/sink"],
    "user/session": ["*"],
    "user/autopsy": ["*"],
    "user/hub": ["*"],
    "user/hub/mark": ["user", "user/base", "user/bus"],
    "user/hub/time": ["user"],
    "user/cmd": ["*"],
    "user/cmd/ps": ["*"],
    "user/cmd/cluster": ["*"],
    "user/cmd/diff": ["*"],
    "user/cmd/steps": ["*"],
    "user/compare": ["user", "user/base", "user/job", "user/model", "user/sink"],
    "user/doctor": ["*"],
    "user/top": ["*"],
    "user/notify": ["user", "user/base", "user/sink"],
    "tools/stress": ["user/base", "tools/stress/lib", "tools/stress/kernels"],
    "tools/stress/lib": [],
    "tools/stress/kernels": [],
    "tools/stress/gpu": ["user/base", "tools/stress", "tools/stress/lib"],
    "tools/stress/inventory": ["user/base", "tools/stress", "tools/stress/lib"],
    "tools/stress/all": ["user/base", "user/base/html", "tools/stress", "tools/stress/nccl", "tools/stress/verbs"],
    "tools/stress/confirm": ["user", "user/base", "tools/stress", "tools/stress/lib"],
    "tools/stress/trace": ["user/base", "tools/stress", "tools/stress/nccl"],
    "tools/stress/bisect": [],
    "tools/stress/p2p": ["user/base", "tools/stress", "tools/stress/lib"],
    "tools/stress/launch": ["user/base", "tools/stress", "tools/stress/lib"],
    "tools/stress/nccl": ["user/base", "tools/stress", "tools/stress/launch", "tools/stress/lib",
                          "tools/stress/bisect"],
    "tools/simcluster": ["*"],  # a hub around a simulated job
    "tools/stress/verbs": ["user/base", "tools/stress", "tools/stress/lib", "tracers/rdma", "tracers/rdma/wire"],
    "tools/stress/rdma": ["user/base", "tools/stress", "tools/stress/launch", "tools/stress/lib", "tools/stress/nccl",
                          "tools/stress/verbs"],
    "tools/simjob/libnvml": [],
    "tools/simjob/libcuda": ["tools/simjob/libnvml"],
    "tools/simjob/libnccl": ["tools/simjob/libcuda"],
    "tools/simjob/libcublaslt": ["tools/simjob/libcuda"],
    "tools/simjob/libtorch": [],
    "tools/simjob/libpython": [],
    "tools/simjob/job": ["tools/simjob/libcuda", "tools/simjob/libnccl", "tools/simjob/libpython",
                         "tools/simjob/libtorch"],
    "tools/simjob/life": ["tools/simjob/faults", "tools/simjob/job", "tools/simjob/libcuda", "tools/simjob/libnccl",
                          "tools/simjob/libpython"],
    "tools/simjob/faults": ["tools/simjob/job", "tools/simjob/libcuda", "tools/simjob/libnccl", "tools/simjob/libnvml",
                            "tools/simjob/libpython"],
}
NOT_FOR = {"user/session": ["user/cmd", "user/autopsy"], "user/autopsy": ["user/cmd"],
           "user/top": ["user/cmd", "user/autopsy", "user/hub", "user/attach"],
           "user/hub": ["user/cmd", "user/session", "user/autopsy", "user/attach"]}
SYSTEM = {"vmlinux.h", "gen_report.h", "gen_stress.h", "uthash.h", "utarray.h", "utlist.h"}
ROOM_MAX = 30


def listed(tree):
    for top in ("schemas", "bpf", "tracers", "user", "tools"):
        for folder, folders, names in os.walk(os.path.join(tree, top)):
            folders[:] = [d for d in folders if d not in ("build", "__pycache__")]
            for name in names:
                yield os.path.relpath(os.path.join(folder, name), tree)


def test_files(tree):
    """Programs of tests; recordings and other data are not counted."""
    return [os.path.relpath(os.path.join(folder, name),
                            tree) for folder, _, names in os.walk(os.path.join(tree, "tests"))
            for name in names if name.endswith((".c", ".h", ".py", ".sh"))]


def allowed(source, target):
    rule = re.sub("^tracers/[^/]+/wire$", "tracers/*/wire", source)
    while rule and rule not in ALLOWED:
        rule = os.path.dirname(rule)
    if target == source or target in NOT_FOR.get(rule, []):
        return target == source
    return any(fnmatch.fnmatch(target, a) for a in ALLOWED.get(rule, []))


def circles(graph):
    """Strongly connected parts of more than one node (Tarjan, 1972)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            part = [stack.pop()]
            while part[-1] != node:
                part.append(stack.pop())
            if len(part) > 1:
                found.append(sorted(part))

    sys.setrecursionlimit(10000)
    for node in list(graph):
        if node not in index:
            visit(node)
    return found


def includes(tree, path):
    with open(os.path.join(tree, path), encoding="utf-8") as f:
        return re.findall(r'^#\s*include "([^"]+)"', f.read(), re.M)


def main(tree):
    files = sorted(listed(tree))
    rooms = collections.Counter(os.path.dirname(f) for f in files + test_files(tree))
    out = [f"{room}: {n} files, more than {ROOM_MAX}" for room, n in sorted(rooms.items()) if n > ROOM_MAX]
    of_files, of_folders = collections.defaultdict(list), collections.defaultdict(set)
    known = set(files)
    for path in files:
        if not path.endswith((".c", ".h", ".def")) or re.match("tools/(?!simjob/|stress/)", path):
            continue
        folder = os.path.dirname(path)
        for name in includes(tree, path):
            if name in SYSTEM or name.endswith((".skel.h", ".pb-c.h")):
                continue
            target = next((t for t in ("user/" + name, name) if t in known), None)
            if not target:
                out.append(f'{path}: includes "{name}", which is no path from the root or from user/')
                continue
            of_files[path].append(target)
            if folder != os.path.dirname(target):
                of_folders[folder].add(os.path.dirname(target))
            if not allowed(folder, os.path.dirname(target)):
                out.append(f'{path}: includes "{name}": {folder} may not include {os.path.dirname(target)}')
    out += ["circle of includes: " + " ".join(c) for c in circles(of_files) + circles(of_folders)]
    print("\n".join(out), end="\n" if out else "")


main(os.environ.get("TREE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")))
