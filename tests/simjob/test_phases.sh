#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The legitimate phases do what they say and the job goes on after them.
. "$(dirname "$0")/job.bash"

run() {
	rm -f "$dir/faults"
	job_start --ranks 4 --layout tp=2,dp=2 --steps 16 --step-ms 20 --fault "$1"
	job_wait || fail "$1: exited with $?"
	fault_began || fail "$1 does not begin"
	check_numbers || fail "$1: the numbering of the log is wrong"
}
lasted_ms() { echo $((($(fault_value end t_ns) - $(fault_value begin t_ns)) / 1000000)); }
# A rank's sequence has no hole and begins at 0 on every communicator, also on those of a restarted job.
check_numbers() {
	jq -se '[.[] | select(.op != "Send" and .op != "Recv")] | group_by([.rank, .comm]) |
		all([.[].seq] == [range(length)])' "$dir/log" > /dev/null
}
# Operations on the communicators that begin with a broadcast (the data-parallel ones) between two instants.
dp_ops_between() {
	jq -s --argjson a "$1" --argjson b "$2" '([.[] | select(.op == "Broadcast") | .comm] | unique) as $dp |
		[.[] | select(.comm as $c | $dp | index($c)) | select(.t_ns > $a and .t_ns < $b)] | length' "$dir/log"
}

run phase:what=eval,sec=1,step=5
(($(lasted_ms) >= 950)) || fail "eval lasted $(lasted_ms) ms"
[[ $(dp_ops_between "$(fault_value begin t_ns)" "$(fault_value end t_ns)") == 0 ]] ||
	fail "eval uses the data-parallel group"

run phase:what=checkpoint,sec=1,step=5
(($(lasted_ms) >= 950)) || fail "checkpoint lasted $(lasted_ms) ms"

run phase:what=checkpoint,rank=2,sec=1,step=5
[[ $(fault_value begin rank) == 2 ]] || fail "the checkpoint is another rank's"
job_start --ranks 2 --steps 1000 --step-ms 20 --fault phase:what=checkpoint,rank=1,sec=3,step=2
wait_for 10 fault_began || fail "no checkpoint"
pid=$(fault_value begin pid)
written() { sed -n 's/^wchar: //p' "/proc/$pid/io"; }
first=$(written)
wait_for 3 eval '(($(written) - first > 5000000))' || fail "the checkpoint writes no bytes"
job_kill TERM

run phase:what=warmup,sec=1
(($(fault_value begin step) == 0)) || fail "warm-up is not at the beginning"

run phase:what=restart,step=6
(($(jq -r .comm "$dir/log" | sort -u | wc -l) == 10)) || fail "a restarted job has to have twice its 5 communicators"

run phase:what=rank0log,step=4
run phase:what=compile,rank=1,step=4,sec=1

rm -f "$dir/faults"
job_start --ranks 2 --steps 10 --step-ms 20 --fault phase:what=compile,rank=1,step=4,sec=3
wait_for 10 fault_began || fail "no compilation"
pid=$(fault_value begin pid)
sleep 0.2
cpu() { awk '{ print $14 + $15 }' "/proc/$pid/stat"; }
first=$(cpu)
wait_for 3 eval '(($(cpu) - first > 30))' || fail "the compiling rank burns no CPU"
job_wait || fail "compile: exited with $?"
