#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every fault takes effect as seen from /proc, begins and ends where it says, and only there.
. "$(dirname "$0")/job.bash"
[[ $EUID == 0 ]] || skip "needs root for a frozen file system"
ranks=4 rank=$((RANDOM % 4)) step=$((3 + RANDOM % 8))
echo "rank $rank step $step"
options=(--ranks "$ranks" --steps 20 --step-ms 20)

begin() {
	rm -f "$dir/faults"
	job_start "${options[@]}" --fault "$1:rank=$rank,step=$step${2:+,$2}"
	wait_for 20 fault_began || fail "$1 does not begin"
	pid=$(fault_value begin pid)
	[[ $(fault_value begin rank) == "$rank" && $(fault_value begin step) == "$step" ]] ||
		fail "$1 strikes elsewhere"
	case $1 in
	dstate*) ;; # its environment may block whoever reads it
	mismatch | slow) ;; # it may be over
	*) [[ $(tr '\0' '\n' < "/proc/$pid/environ" | sed -n 's/^RANK=//p') == "$rank" ]] ||
		fail "$1 reports another pid" ;;
	esac
	grep -q "simjob: fault $1 rank=$rank pid=$pid step=$step" "$dir/err" || fail "$1 is not on stderr"
}
finish() { # name, seconds it was to last
	job_wait || fail "$1: the job exited with $?"
	fault_ended || fail "$1 does not end"
	local ms=$((($(fault_value end t_ns) - $(fault_value begin t_ns)) / 1000000))
	((ms >= $2 * 1000 - 500 && ms <= $(at_most_ms "$2"))) || fail "$1 lasted $ms ms"
}
begin stop sec=5
wait_for 5 task_is "$pid" T || fail "stop: state $(task_state "$pid")"
quiet || fail "stop: the job goes on"
finish stop 5

begin stop
wait_for 5 task_is "$pid" T || fail "stop: state $(task_state "$pid")"
sleep 2
task_is "$pid" T || fail "stop without sec= is continued"
job_kill TERM && fail "a terminated job has to exit with 1"

begin hang sec=5
wait_for 5 task_is "$pid" S || fail "hang: state $(task_state "$pid")"
[[ $(cut -d' ' -f1 "/proc/$pid/syscall") == 230 || $(uname -m) != x86_64 ]] || fail "hang: not in clock_nanosleep"
quiet || fail "hang: the job goes on"
finish hang 5

begin hang-busy sec=6
for i in 1 2 3 4 5; do sleep 0.1; task_is "$pid" R || fail "hang-busy: state $(task_state "$pid")"; done
finish hang-busy 6

begin mismatch what=count
sleep 0.3
quiet || fail "mismatch: the job goes on"
comm=$(fault_value begin comm) seq=$(fault_value begin seq)
counts() { jq -s --arg c "$comm" --argjson s "$seq" --argjson r "$rank" \
	"[.[] | select(.comm == \$c and .seq == \$s and (.rank == \$r) == $1) | .count] | unique | length" "$dir/log"; }
[[ $(counts true) == 1 && $(counts false) == 1 ]] || fail "mismatch: more than one side"
jq -se --arg c "$comm" --argjson s "$seq" '[.[] | select(.comm == $c and .seq == $s) | .count] | unique | length == 2' \
	"$dir/log" > /dev/null || fail "mismatch: the counts are equal"
job_kill TERM

begin mismatch what=dtype
job_wait || fail "mismatch of the data type: NCCL would go on, the job exited with $?"

slow() {
	local options=(--ranks "$ranks" --steps 20 --step-ms 100)
	begin slow "percent=200,until=$((step + 5))"
	job_wait || fail "slow: exited with $?"
	fault_ended || fail "slow does not end"
	python3 -B - "$dir/log" "$step" "$rank" << 'PY'
import json, sys
step, rank = int(sys.argv[2]), int(sys.argv[3])
# The loss is the one all-reduce of two elements: one a step, entered when the own kernels are done.
ends = [op["t_ns"] for op in map(json.loads, open(sys.argv[1])) if op["rank"] == rank and op["count"] == 2]
took = [(b - a) / 1e6 for a, b in zip(ends, ends[1:])]
slow, healthy = took[step - 1:step + 4], took[:step - 1] + took[step + 5:]
print("slow", [round(t, 1) for t in slow], "healthy", [round(t, 1) for t in healthy])
sys.exit(not (min(slow) > 2.2 * sorted(healthy)[len(healthy) // 2]))
PY
}
thrice slow || fail "slow: the steps do not take longer"

begin dstate sec=6
grep -q 'by vfork' "$dir/err" && skip "no frozen file system here: $(grep vfork "$dir/err" | head -n 1)"
wait_for 5 task_is "$pid" D || fail "dstate: state $(task_state "$pid")"
sleep 2
task_is "$pid" D || fail "dstate: not for its whole time"
finish dstate 6

begin dstate-mm sec=4
wait_for 5 task_is "$pid" D || fail "dstate-mm: state $(task_state "$pid")"
timeout -s KILL 1 cat "/proc/$pid/maps" > /dev/null 2>&1 && fail "dstate-mm: the maps can be read"
(($(cat /proc/"$pid"/task/*/stat | sed 's/.*) //' | grep -c '^D') >= 3)) || fail "dstate-mm: fewer than 3 threads in D"
finish dstate-mm 4

# Two at once, on different ranks; both end.
rm -f "$dir/faults"
job_start "${options[@]}" --fault dstate:rank=0,step=4,sec=1 --fault dstate-mm:rank=3,step=4,sec=2 \
	--fault hang:rank=1,step=9,sec=1
job_wait || fail "three faults: exited with $?"
[[ $(jq -r .phase "$dir/faults" | sort | uniq -c | xargs) == "3 begin 3 end" ]] ||
	fail "three faults: $(cat "$dir/faults")"

# What is left open is drawn from the seed, and the same again.
plan() { "$simjob" --ranks 4 --steps 10 --step-ms 5 --seed "$1" --fault stop:sec=0.1 2>&1 | grep planned; }
[[ $(plan "$seed") == "$(plan "$seed")" ]] || fail "the same seed draws differently"
