#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A rank that dies in each of the ways: it is gone before the operation that it names, the peers wait on, and the
# launcher says what it died of.
. "$(dirname "$0")/job.bash"
rank=$((RANDOM % 4)) step=$((3 + RANDOM % 8))
echo "rank $rank step $step"

# dies_of HOW what the launcher says
dies_of() {
	fault_job "kill:rank=$rank,step=$step,how=$1" --ranks 4 --steps 20 --step-ms 20 --linger-sec "${2:-60}"
	wait_for 5 eval '[[ ! -e /proc/$pid ]]' || fail "kill $1: pid $pid is alive"
	[[ $(fault_value begin rank) == "$rank" && $(fault_value begin step) == "$step" ]] ||
		fail "kill $1 strikes elsewhere"
	grep -q "rank $rank, pid $pid, $3" "$dir/err" || fail "kill $1: the launcher does not say '$3'"
}
# The operation that it names is the next that the rank would have called.
names_next() {
	local called
	called=$(jq -s --arg c "$(fault_value begin comm)" --argjson r "$rank" \
		'[.[] | select(.comm == $c and .rank == $r)] | length' "$dir/log")
	((called == $(fault_value begin seq)))
}

for way in "kill was killed by signal 9" "exit exited with 1" "segv was killed by signal 11"; do
	dies_of "${way%% *}" 60 "${way#* }"
	quiet || fail "$way: the job goes on"
	(($(pgrep -P "$launcher" | wc -l) == 3)) || fail "$way: the peers do not wait"
	names_next || fail "$way: it called the operation that it was to die before"
	job_kill TERM
	[[ $? == 1 ]] || fail "$way: exit status is not 1"
	wait_for 10 nothing_left || fail "$way leaves behind: $(left)"
done
compgen -G 'core*' > /dev/null && fail "a core file"

# The peers end when their time is up; and they are given some without being asked.
dies_of kill 1 "was killed by signal 9"
begun=$(fault_value begin t_ns)
job_wait && fail "a dead rank and exit status 0"
ms=$((($(awk '{ printf "%d", $1 * 1000 }' /proc/uptime) - begun / 1000000)))
((ms >= 950 && ms < 5000)) || fail "--linger-sec 1: the peers lived $ms ms"
fault_job "kill:rank=$rank,step=$step" --ranks 4 --steps 20 --step-ms 20
sleep 1
(($(pgrep -P "$launcher" | wc -l) == 3)) || fail "without --linger-sec the peers do not wait"
job_kill TERM
exit 0
