#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks a simulated job's log against itself and against what its layout and steps must give.

usage: check_log.py LOG tp dp pp steps layers microbatches buckets zero extra graph
graph: none, step or layers
"""
import collections
import json
import sys

GRAPH_WARM_UP_STEPS = 3
COUNTED = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")
KEYS = ["rank", "pid", "comm_rank", "comm", "seq", "op", "count", "dtype", "peer", "t_ns"]


def fail(text):
    sys.exit("log: " + text)


def read(path):
    with open(path) as lines:
        ops = [json.loads(line) for line in lines]
    for op in ops:
        if list(op) not in (KEYS, KEYS + ["graph"]) or op.get("graph") not in (None, True):
            fail(f"keys {list(op)}")
    return ops


def lane(op):
    """The sequence that an operation is numbered in."""
    if op.get("graph") and op["op"] not in ("Send", "Recv"):
        return (op["comm"], "graph")
    if op["op"] in COUNTED:
        return (op["comm"], "collective")
    return (op["comm"], op["op"], op["peer"])


def local_members(ops):
    """Of communicators that one process has several members of: how many."""
    ranks, first = collections.defaultdict(set), collections.Counter()
    for op in ops:
        ranks[op["comm"]].add(op["rank"])
        first[op["comm"]] += op["seq"] == 0
    return {comm: first[comm] for comm in ranks if len(ranks[comm]) == 1}


def check_numbering(ops):
    expected = collections.Counter()
    local = local_members(ops)
    last_ns = {}
    for op in ops:
        key = (op["rank"], lane(op))
        if op["seq"] != expected[key] // local.get(op["comm"], 1):
            fail(f"seq {op['seq']} instead of {expected[key]}: {op}")
        expected[key] += 1
        if op["t_ns"] < last_ns.get(op["rank"], 0):
            fail(f"time goes back: {op}")
        last_ns[op["rank"]] = op["t_ns"]
    return expected


def check_agreement(ops, members):
    """Every member of a communicator made the same collectives."""
    said = collections.defaultdict(dict)
    for op in ops:
        if op["op"] not in ("Send", "Recv"):
            said[lane(op) + (op["seq"],)][op["rank"]] = (op["op"], op["count"], op["dtype"])
    for key, by_rank in said.items():
        if set(by_rank) != members[key[0]]:
            fail(f"{key}: ranks {sorted(by_rank)} of {sorted(members[key[0]])}")
        if len(set(by_rank.values())) != 1:
            fail(f"{key}: signatures {by_rank}")


def check_pairs(ops, members, tp, dp):
    """The n-th Send from a to b has its Recv."""
    ends = collections.defaultdict(dict)
    for op in ops:
        if op["op"] not in ("Send", "Recv"):
            continue
        ranks = sorted(members[op["comm"]])
        me, peer = op["rank"], ranks[op["peer"]]
        ends[op["op"]][(op["comm"], me, peer, op["seq"])] = (op["count"], op["dtype"])
    for (comm, me, peer, seq), what in ends["Send"].items():
        if ends["Recv"].get((comm, peer, me, seq)) != what:
            fail(f"Send {seq} on {comm} from {me} to {peer} has no Recv")
    if len(ends["Send"]) != len(ends["Recv"]):
        fail("more Recv than Send")


def expected_counts(arguments, rank):
    """Per communicator of this rank: operations on it, as a sorted list of counters."""
    tp, dp, pp, steps, layers, microbatches, buckets, zero, extra = arguments
    stage = rank // (tp * dp)
    rounds = steps // 4 if extra else 0
    size = tp * dp * pp
    world = {"AllReduce": steps + 1 + 2 * rounds}
    comms = [world]
    if rounds:
        world.update(Broadcast=2 * rounds, Reduce=2 * rounds, AllGather=2 * rounds, ReduceScatter=rounds,
                     AlltoAll=3 * rounds, Gather=rounds, Scatter=rounds, Send=(2 + size) * rounds,
                     Recv=(2 + size) * rounds)
        comms += [{"AllReduce": 2, "AlltoAll": 1}, {"AllGather": 1}, {"AllReduce": 4}]
        if rank < size - 1:
            comms.append({"Broadcast": 1, "AllReduce": 1})
    if dp > 1:
        gradients = {"ReduceScatter": buckets * steps, "AllGather": buckets * steps} if zero else {
            "AllReduce": buckets * steps}
        gradients["AllReduce"] = gradients.get("AllReduce", 0) + rounds
        if not gradients["AllReduce"]:
            del gradients["AllReduce"]
        comms.append({"Broadcast": layers + rounds, **gradients})
    if tp > 1:
        comms.append({"AllReduce": 2 * layers * microbatches * steps + rounds})
    if pp > 1:
        neighbours = (stage > 0) + (stage < pp - 1)
        transfers = neighbours * microbatches * steps
        comms.append({"Send": transfers, "Recv": transfers})
    return sorted(sorted(comm.items()) for comm in comms)


def check_graphs(ops, arguments, mode):
    """Which operations ran in graphs: as many as the mode and the layout give, from the fourth step on."""
    tp, dp, pp, steps, layers, microbatches, buckets, zero, _ = arguments
    in_graph = collections.Counter(op["rank"] for op in ops if op.get("graph"))
    for rank in range(tp * dp * pp):
        stage = rank // (tp * dp)
        expected = 2 * layers * microbatches * (tp > 1) if mode != "none" else 0
        if mode == "step":
            expected += buckets * (1 + zero) * (dp > 1)
            expected += 2 * microbatches * ((stage > 0) + (stage < pp - 1))
        expected *= steps - GRAPH_WARM_UP_STEPS
        if in_graph[rank] != expected:
            fail(f"rank {rank}: {in_graph[rank]} operations in graphs instead of {expected}")


def main():
    arguments = [int(text) for text in sys.argv[2:11]]
    tp, dp, pp = arguments[:3]
    ops = read(sys.argv[1])
    ranks = set(range(tp * dp * pp))
    if {op["rank"] for op in ops} != ranks:
        fail("not every rank is there")
    if len({op["pid"] for op in ops}) != len(ranks):
        fail("not one pid per rank")
    members = collections.defaultdict(set)
    counts = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
    for op in ops:
        members[op["comm"]].add(op["rank"])
        counts[op["rank"]][op["comm"]][op["op"]] += 1
    check_numbering(ops)
    check_agreement(ops, members)
    check_pairs(ops, members, tp, dp)
    check_graphs(ops, arguments, sys.argv[11])
    for rank in ranks:
        found = sorted(sorted(comm.items()) for comm in counts[rank].values())
        if found != expected_counts(arguments, rank):
            fail(f"rank {rank}: {found} instead of {expected_counts(arguments, rank)}")
    print(f"{len(ops)} operations on {len(members)} communicators agree")


main()
