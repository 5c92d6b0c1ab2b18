#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What is called in the wrong order, or not at all: a deadlock of two communicators and a transfer without its other
# side are what the fault log says they are, and nothing else is wrong with the job.
. "$(dirname "$0")/job.bash"
rank=$((RANDOM % 8)) step=$((3 + RANDOM % 4))
echo "rank $rank step $step"
job=(--ranks 8 --layout tp=2,dp=2,pp=2 --steps 20 --step-ms 20)

# What the members of the cycle called of its two operations, in order, checked against the truth.
check_deadlock() { # ahead or blocked
	python3 -B - "$1" "$dir/log" "$dir/faults" 8 << 'PY'
import collections, json, sys
host, log, faults, nr = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
truth = json.loads(open(faults).readline())
first, second = zip(truth["comms"], truth["seqs"])
calls, members = collections.defaultdict(list), collections.defaultdict(set)
for op in map(json.loads, open(log)):
    calls[op["rank"]].append((op["comm"], op["seq"]))
    members[op["comm"]].add(op["rank"])
assert truth["rank"] in truth["ranks"] and set(truth["ranks"]) == members[first[0]] != set(), (truth, members[first[0]])
assert members[second[0]] == set(range(nr)), "the second is not the world"
for rank in range(nr):
    mine = [call for call in calls[rank] if call in (first, second)]
    order = [second, first] if rank == truth["rank"] else [first, second]
    if rank not in truth["ranks"]:
        order = [second]
    if host == "blocked" and rank in truth["ranks"]:
        order = order[:1]
    assert mine == order, (rank, mine, order)
    assert calls[rank][-1] == order[-1], f"rank {rank} goes on to {calls[rank][-1]}"
PY
}
for spec in ahead:nan-check blocked:nan-check ahead:step blocked:step; do
	host=${spec%:*}
	fault_job "deadlock:rank=$rank,step=$step,host=$host" "${job[@]}" --sync "${spec#*:}"
	quiet || fail "deadlock $spec: the job goes on"
	check_deadlock "$host" || fail "deadlock $spec: not what the fault log says: $(cat "$dir/faults")"
	for p in $(pgrep -P "$launcher"); do task_is "$p" S ||
		fail "deadlock $spec: pid $p is in state $(task_state "$p")"; done
	job_kill TERM
done
# With ZeRO the operation before the loss is another one; with extra operations there are some between the two.
fault_job "deadlock:rank=$rank,step=3" "${job[@]}" --zero --extra-ops
quiet || fail "deadlock with ZeRO: the job goes on"
check_deadlock ahead || fail "deadlock with ZeRO: not what the fault log says"
[[ $(fault_value begin 'ops[0]') == AllGather && $(fault_value begin step) == 4 ]] ||
	fail "deadlock with ZeRO: $(cat "$dir/faults")"
job_kill TERM

# The sides of a transfer: the one that the fault names has called one less than the other, and gone on.
check_transfer() {
	python3 -B - "$1" "$dir/log" "$dir/faults" << 'PY'
import json, sys
what, truth = sys.argv[1], json.loads(open(sys.argv[3]).readline())
ops = list(map(json.loads, open(sys.argv[2])))
members = sorted({op["rank"] for op in ops if op["comm"] == truth["comm"]})
sides = {"Send": (truth["sender"], truth["receiver"]), "Recv": (truth["receiver"], truth["sender"])}
made = {op: [o["seq"] for o in ops if (o["op"], o["comm"], o["rank"]) == (op, truth["comm"], me)
             and members[o["peer"]] == peer] for op, (me, peer) in sides.items()}
short, other = ("Send", "Recv") if what == "send" else ("Recv", "Send")
assert truth["op"] == short and truth["rank"] == sides[short][0], truth
assert len(made[other]) == len(made[short]) + 1 and max(made[other]) == truth["unmatched_seq"], (made, truth)
assert truth["seq"] <= truth["unmatched_seq"], truth
mine = [o for o in ops if o["rank"] == truth["rank"] and o["t_ns"] > truth["t_ns"]]
assert mine, "the culprit does not go on"
PY
}
for what in send recv; do
	fault_job "p2p:rank=$rank,step=$step,what=$what" "${job[@]}"
	quiet || fail "p2p $what: the job goes on"
	[[ $(fault_value begin rank) == "$rank" && $(fault_value begin step) == "$step" ]] ||
		fail "p2p $what strikes elsewhere"
	check_transfer $what || fail "p2p $what: not what the fault log says: $(cat "$dir/faults")"
	job_kill TERM
done
fault_job "p2p:rank=0,step=$step,op=0" --ranks 3 --layout pp=3 --steps 20 --step-ms 20
quiet || fail "p2p in a pure pipeline: the job goes on"
check_transfer send || fail "p2p in a pure pipeline: not what the fault log says: $(cat "$dir/faults")"
job_kill TERM
exit 0
