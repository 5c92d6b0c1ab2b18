#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A rank that misses the creation of a communicator: it is in the state that was asked for, the others wait in a futex
# and call nothing, and when it comes at last the job goes on as if nothing had been.
. "$(dirname "$0")/job.bash"
rank=$((RANDOM % 4)) step=$((3 + RANDOM % 8))
echo "rank $rank step $step"
job=(--ranks 4 --layout tp=2 --steps 20 --step-ms 20)

peers_wait() { # exactly three of them
	local p nr=0
	for p in $(pgrep -P "$launcher"); do
		[[ $(rank_of "$p") == "$rank" ]] && continue
		task_is "$p" S || return 1
		[[ $(uname -m) != x86_64 || $(cut -d' ' -f1 "/proc/$p/syscall") == 202 ]] || return 1
		nr=$((nr + 1))
	done
	((nr == 3))
}
state_of=([0]=sleep:S [1]=stop:T [2]=busy:R)

# From the start: nothing was called yet.
for pair in "${state_of[@]}"; do
	fault_job "init:rank=$rank,sec=4,how=${pair%:*}" "${job[@]}"
	[[ $(rank_of "$pid") == "$rank" && $(fault_value begin op) == CommInitRank ]] ||
		fail "init $pair: $(cat "$dir/faults")"
	wait_for 3 task_is "$pid" "${pair#*:}" || fail "init $pair: state $(task_state "$pid")"
	wait_for 3 peers_wait || fail "init $pair: the peers do not wait"
	(($(log_lines) == 0)) || fail "init $pair: operations without communicators"
	job_wait || fail "init $pair: exited with $?"
	fault_ended || fail "init $pair does not end"
	first=$(head -n 1 "$dir/log" | jq .t_ns)
	((first > $(fault_value end t_ns))) || fail "init $pair: the others did not wait for it"
done

# The dead one may be the owner of the unique id: the others must be in by then, and wait, not fail.
for rank in 0 2; do
	fault_job "init:rank=$rank,how=dead" "${job[@]}"
	wait_for 10 eval '[[ ! -e /proc/$pid ]]' || fail "init dead: pid $pid is alive"
	wait_for 5 peers_wait || fail "init dead, rank $rank: the peers do not wait: $(cat "$dir/err")"
	job_kill TERM
done

# One more communicator in the middle of the job: used once, with a number of its own.
for what in new split; do
	fault_job "init:rank=$rank,step=$step,what=$what,sec=6" "${job[@]}"
	[[ $(fault_value begin step) == "$step" ]] || fail "init $what strikes elsewhere"
	quiet || fail "init $what: the job goes on"
	wait_for 3 peers_wait || fail "init $what: the peers do not wait"
	job_wait || fail "init $what: exited with $?"
	fault_ended || fail "init $what does not end"
	[[ $(jq -s --argjson e "$(fault_value end t_ns)" '[group_by(.comm)[] | select(length == 4) |
		select(map(.rank) | sort == [0, 1, 2, 3]) | select(all(.seq == 0 and .t_ns > $e))] | length' \
		"$dir/log") == 1 ]] ||
		fail "init $what: no communicator that was made and used once after it"
done
parent=$(fault_value begin comm)
[[ $(jq -s --arg c "$parent" '[.[] | select(.comm == $c) | .rank] | unique | length' "$dir/log") == 4 ]] ||
	fail "init split: its parent is not the world"
fault_job "init:rank=$rank,step=$step" "${job[@]}"
[[ $(fault_value begin step) == "$step" ]] || fail "init with a step and no what= is not in that step"
job_kill TERM
exit 0
