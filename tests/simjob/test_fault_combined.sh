#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# More than one fault at once, on different ranks and on one: each begins and ends where and when it says.
. "$(dirname "$0")/job.bash"
[[ $EUID == 0 ]] || skip "needs root for a frozen file system"

run() {
	rm -f "$dir/faults"
	: > "$dir/log"
	job_start "$@"
	job_wait || fail "$*: exited with $?"
}
# "fault rank" of each phase, sorted, one a line
logged() { jq -r "select(.phase == \"$1\") | \"\(.fault) \(.rank)\"" "$dir/faults" | sort -u | xargs; }
# milliseconds from the begin to the end of each "fault rank"
lasted_ms() {
	jq -rs --arg f "$1" --argjson r "$2" \
		'[.[] | select(.fault == $f and .rank == $r)] | (.[1].t_ns - .[0].t_ns) / 1000000 | floor' "$dir/faults"
}
about() { (($3 >= $4 - 20 && $3 <= $(at_most_ms 0) + $4)) || fail "$1 on rank $2 lasted $3 ms instead of $4"; }

# One on each rank, and two that are everybody's.
run --ranks 4 --steps 40 --step-ms 20 --fault slow:rank=0,step=4,until=30 --fault dstate:rank=1,step=6,sec=1 \
	--fault hang:rank=2,step=8,sec=0.6 --fault cpu:rank=3,step=5,until=20,n=1 --fault gc:rate=0.05 \
	--fault io:ms=30,rate=1,step=9
[[ $(logged begin) == "cpu 3 dstate 1 gc "*"hang 2 io "*"slow 0" && $(logged end) == "$(logged begin)" ]] ||
	fail "six faults: begun $(logged begin); ended $(logged end)"
about dstate 1 "$(lasted_ms dstate 1)" 1000
about hang 2 "$(lasted_ms hang 2)" 600

# All on one rank; two stops of different length, of which the launcher has to distinguish.
run --ranks 4 --steps 40 --step-ms 20 --fault init:rank=1,how=stop,sec=1.5 --fault stop:rank=1,step=9,op=1,sec=0.5 \
	--fault slow:rank=1,step=3,until=12 --fault dstate:rank=1,step=9,op=1,sec=0.7 \
	--fault hang-busy:rank=1,step=9,op=1,sec=0.3 \
	--fault dstate-child:rank=1,step=14,sec=0.6 --fault mismatch:rank=1,step=16,what=dtype
[[ $(logged begin) == "dstate 1 dstate-child 1 hang-busy 1 init 1 mismatch 1 slow 1 stop 1" ]] ||
	fail "seven on one rank: begun $(logged begin)"
[[ $(logged end) == "dstate 1 dstate-child 1 hang-busy 1 init 1 slow 1 stop 1" ]] ||
	fail "seven on one rank: ended $(logged end)"
for want in init:1500 stop:500 dstate:700 hang-busy:300 dstate-child:600; do
	about "${want%:*}" 1 "$(lasted_ms "${want%:*}" 1)" "${want#*:}"
done
# Those of one operation come one after the other.
[[ $(jq -r 'select(.step == 9) | .fault + " " + .phase' "$dir/faults" | xargs) == \
	"stop begin stop end dstate begin dstate end hang-busy begin hang-busy end" ]] ||
	fail "one operation, three faults: $(cat "$dir/faults")"

# The same twice, on two ranks at once; the slow ones' factors multiply.
run --ranks 4 --steps 20 --step-ms 20 --fault dstate:rank=0,step=5,sec=1 --fault dstate:rank=3,step=5,sec=1.4 \
	--fault slow:rank=2,step=12,percent=100 --fault slow:rank=2,step=12,percent=100
about dstate 0 "$(lasted_ms dstate 0)" 1000
about dstate 3 "$(lasted_ms dstate 3)" 1400
jq -se '[.[] | select(.rank == 2 and .count == 2) | .t_ns] | [range(13; 19) as $i | .[$i] - .[$i - 1]] |
	min > 70000000' "$dir/log" > /dev/null || fail "two slow faults on a rank do not add up"

# A hang for good while another rank is slow; a deadlock meanwhile; a death while another one is stopped.
fault_job hang:rank=2,step=8 --ranks 4 --steps 20 --step-ms 20 --fault slow:rank=1,step=3
wait_for 5 eval '[[ $(logged begin) == "hang 2 slow 1" ]]' || fail "hang and slow: $(logged begin)"
quiet || fail "hang and slow: the job goes on"
job_kill TERM
fault_job deadlock:rank=0,step=6 --ranks 4 --layout pp=2 --steps 20 --step-ms 20 --fault slow:rank=3,step=3
wait_for 5 eval '[[ $(logged begin) == "deadlock 0 slow 3" ]]' || fail "deadlock and slow: $(logged begin)"
quiet || fail "deadlock and slow: the job goes on"
job_kill TERM
fault_job kill:rank=0,step=6,op=0 --ranks 4 --steps 20 --step-ms 20 --linger-sec 2 --fault stop:rank=3,step=6,op=0
wait_for 5 eval '[[ $(logged begin) == "kill 0 stop 3" ]]' || fail "kill and stop: $(logged begin)"
job_wait && fail "a dead rank and exit status 0"
wait_for 5 nothing_left || fail "kill and stop leave behind: $(left)"

# What is left open strikes different ranks, as long as there are some.
for s in $seed $((seed + 1)) $((seed + 2)); do
	ranks=$("$simjob" --ranks 4 --steps 3 --step-ms 5 --seed "$s" --fault slow --fault hang:sec=0 \
		--fault stop:sec=0,rank=2 \
		--fault mismatch:what=dtype 2>&1 | sed -n 's/.*planned.* rank=\([0-9]*\).*/\1/p' | sort -u | xargs)
	[[ $ranks == "0 1 2 3" ]] || fail "seed $s: four faults on ranks $ranks"
done
exit 0
