#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Faults strike also where graphs run: before a launch, of which nothing is logged until they are over; a slow rank's
# graphs take longer; an elastic restart captures again.
. "$(dirname "$0")/job.bash"
ranks=4 rank=$((RANDOM % 4)) step=$((6 + RANDOM % 6))
echo "rank $rank step $step"

run() { # graph mode, fault
	rm -f "$dir/faults" "$dir/log"
	job_start --ranks $ranks --layout tp=2,dp=2 --steps 16 --step-ms 20 --graph "$1" --fault "$2"
}
# Lines of the struck rank between two instants, and what the fault says it was about to enter.
lines_in_fault() {
	jq -s --argjson a "$(fault_value begin t_ns)" --argjson b "$(fault_value end t_ns)" --argjson r "$rank" \
		'[.[] | select(.rank == $r and .t_ns > $a and .t_ns < $b)] | length' "$dir/log"
}
next_line_is_what_it_said() {
	jq -se --argjson b "$(fault_value end t_ns)" --argjson r "$rank" --slurpfile f "$dir/faults" \
		'[.[] | select(.rank == $r and .t_ns >= $b)][0] as $next | $f[0] |
		[.comm, .seq, .op, .graph] == [$next.comm, $next.seq, $next.op, $next.graph]' "$dir/log" > /dev/null
}

slow() {
	run "$mode" "slow:rank=$rank,step=8,until=12,percent=200"
	job_wait || fail "$mode, slow: exited with $?"
	python3 -B - "$dir/log" "$rank" << 'PY'
import json, sys
ends = [op["t_ns"] for op in map(json.loads, open(sys.argv[1])) if op["rank"] == int(sys.argv[2]) and op["count"] == 2]
took = [(b - a) / 1e6 for a, b in zip(ends, ends[1:])]
slow, healthy = took[8:11], took[4:7] + took[12:]
print("slow", [round(t, 1) for t in slow], "healthy", [round(t, 1) for t in healthy])
sys.exit(not (min(slow) > 1.8 * sorted(healthy)[len(healthy) // 2]))
PY
}

for mode in step layers; do
	for fault in hang stop hang-busy; do
		run $mode "$fault:rank=$rank,step=$step,op=5,sec=1"
		job_wait || fail "$mode, $fault: exited with $?"
		fault_ended || fail "$mode, $fault does not end"
		[[ $(fault_value begin step) == "$step" ]] ||
			fail "$mode, $fault strikes in step $(fault_value begin step)"
		[[ $(fault_value begin graph) == true ]] || fail "$mode, $fault strikes outside of the graphs"
		[[ $(lines_in_fault) == 0 ]] || fail "$mode, $fault: the rank went on"
		next_line_is_what_it_said || fail "$mode, $fault: the next operation is not the one it named"
	done

	thrice slow || fail "$mode, slow: the steps do not take longer"

	# A captured operation cannot change: the fault waits for the loss, which is not captured.
	run $mode "mismatch:what=dtype,rank=$rank,step=$step,op=0"
	job_wait || fail "$mode, mismatch: exited with $?"
	[[ $(fault_value begin graph) == null ]] || fail "$mode: a captured operation was changed"

	run $mode "phase:what=restart,step=8"
	job_wait || fail "$mode, restart: exited with $?"
	jq -se 'group_by([.rank, .comm, .graph // false]) | all(map(select(.op == "AllReduce").seq) | . == sort)' \
		"$dir/log" > /dev/null || fail "$mode, restart: the numbering is wrong"
	jq -se '[.[] | select(.graph) | .comm] | unique | length > 2' "$dir/log" > /dev/null ||
		fail "$mode: nothing is captured after the restart"
done
