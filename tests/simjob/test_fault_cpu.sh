#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# runs alone: judges ranks that lack CPU
# CPU starvation of one rank, by hogs on its core and by a quota: who is pinned where, who waits for a CPU, what the
# control group says, that it ends, and that it is refused where it cannot be had.
. "$(dirname "$0")/job.bash"
rank=$((RANDOM % 4)) step=$((3 + RANDOM % 4))
echo "rank $rank step $step"
job=(--ranks 4 --step-ms 40 --host-ms 10)

cores_of() { sed -n 's/^Cpus_allowed_list:\t//p' "/proc/$1/status"; }
# ns for which a process's main thread was runnable and not running
waited_ns() { cut -d' ' -f2 "/proc/$1/task/$1/schedstat"; }
hogs() { pgrep -P "$launcher" -x simjob-hog; }
hogs_number() { (($(hogs | wc -l) == $1)); }
hogs_are() { local h; for h in $(hogs); do task_is "$h" "$1" || return 1; done; }
# All threads of the rank but those that stand for a GPU: one that has come since is pinned at the next step.
rank_pinned() {
	local task name cores
	for task in /proc/"$pid"/task/*; do
		name=$(cat "$task/comm" 2> /dev/null) cores=$(cores_of "$pid/task/${task##*/}" 2> /dev/null)
		[[ ! -e $task || $cores == $([[ $name == cuda-EvtHandlr ]] && echo "$everywhere" || echo "$core") ]] ||
			return 1
	done
}
# Since `before`; into mine and others, in ms.
waited_more() {
	local p waited
	others=()
	for p in "${!before[@]}"; do
		waited=$((($(waited_ns "$p") - before[$p]) / 1000000))
		if ((p == pid)); then mine=$waited; else others+=("$waited"); fi
	done
	((mine > 200)) || return 1
	for waited in "${others[@]}"; do ((mine > waited * 3 / 2)) || return 1; done
}
all_wait() {
	local waited
	for waited in "${others[@]}"; do ((waited > mine / 2 && mine > 4000)) || return 1; done
	echo "no rank of this job gets a CPU for half of the time: who waits longer is not compared"
}
steps_ms() { # median time of rank 0's steps between two instants
	jq -s --argjson a "$1" --argjson b "$2" '[.[] | select(.rank == 0 and .count == 2) | .t_ns] | . as $t |
		[range(1; length) | select($t[. - 1] > $a and $t[.] < $b) | ($t[.] - $t[. - 1]) / 1000000] |
		sort | .[length / 2 | floor]' "$dir/log"
}
# Other load on the machine changes from one second to the next, and with it the steps: a bar in `make test-long` only.
slower() { [[ -z ${LONG:-} ]] || jq -ne "$(steps_ms "$begin" "$end") > 1.2 * $(steps_ms 0 "$begin")" > /dev/null; }

everywhere=$(cores_of $$)
[[ -r /proc/$$/schedstat ]] || skip "this kernel keeps no schedstat"
fault_job "cpu:rank=$rank,step=$step,n=6,sec=12" "${job[@]}" --steps 10000
core=$(fault_value begin core)
[[ $(rank_of "$pid") == "$rank" && $(fault_value begin hogs) == 6 ]] ||
	fail "hog strikes elsewhere: $(cat "$dir/faults")"
wait_for 10 rank_pinned || fail "hog: of the threads of $pid not all are on core $core, and the GPU's everywhere:" \
	"$(grep -H Cpus_allowed_list "/proc/$pid"/task/*/status | xargs)"
wait_for 10 hogs_number 6 || fail "hog: $(hogs | wc -l) hogs instead of 6"
wait_for 10 hogs_are R || fail "hog: a hog does not spin"
for h in $(hogs); do [[ $(cores_of "$h") == "$core" ]] || fail "hog: a hog is not on core $core"; done
declare -A before
for p in $(pgrep -P "$launcher" -x pt_main_thread); do before[$p]=$(waited_ns "$p"); done
sleep 1.5
# Whoever else uses the machine may have others wait, too: all the time, where it has no CPU for anybody.
wait_for 7 waited_more || all_wait ||
	fail "hog: the rank waits $mine ms for a CPU, no longer than others: ${others[*]} ms"
echo "waited for a CPU: $mine ms; the other ranks: ${others[*]} ms"
wait_for 60 fault_ended || fail "hog does not end"
end_lines=$(log_lines)
wait_for 20 eval '[[ $(cores_of "$pid") == "$everywhere" ]]' || fail "hog: the rank stays pinned"
wait_for 20 hogs_are S || fail "hog: the hogs spin on"
wait_for 20 eval '(($(log_lines) > end_lines))' || fail "hog: the job does not go on"
job_kill TERM
begin=$(fault_value begin t_ns) end=$(fault_value end t_ns)
echo "steps of $(steps_ms 0 "$begin") ms, with hogs $(steps_ms "$begin" "$end") ms"
slower || fail "hog: the steps take no longer"
wait_for 30 nothing_left || fail "hog leaves behind: $(left)"

# Until a step; two faults on one rank: the pin goes with the last.
fault_job "cpu:rank=$rank,step=$step,n=1,until=$((step + 4))" "${job[@]}" --steps 20 \
	--fault "cpu:rank=$rank,step=$step,n=1,until=$((step + 8))"
job_wait || fail "two hogs: exited with $?"
[[ $(jq -r '[.phase, .step] | join(" ")' "$dir/faults" |
	xargs) == "begin $step begin $step end $((step + 4)) end $((step + 8))" ]] ||
	fail "two hogs: $(cat "$dir/faults")"

[[ $EUID == 0 ]] || skip "the CPU quota needs root"
group_dir() { find /sys/fs/cgroup -type d -name "simjob-$1-0" 2> /dev/null; }
throttled() { sed -n 's/^nr_throttled //p' "$(group_dir "$launcher")/cpu.stat"; }
rm -f "$dir/faults"
: > "$dir/log"
# 3 ms of CPU in 100: a step needs 10 and meets the limit however slow others make it.
job_start "${job[@]}" --steps 110 --fault "cpu:how=quota,percent=3,rank=$rank,step=$step,sec=4"
wait_for 20 fault_began || { grep -q 'cannot limit the CPU' "$dir/err" &&
	skip "$(grep 'cannot limit' "$dir/err")"; fail "quota does not begin"; }
pid=$(fault_value begin pid)
[[ $(cat "$(group_dir "$launcher")/cgroup.procs") == "$pid" && $(rank_of "$pid") == "$rank" ]] ||
	fail "quota: not the rank alone"
first=$(throttled)
wait_for 20 eval '(($(throttled) > first + 3))' || fail "quota: throttled $(($(throttled) - first)) times"
wait_for 30 fault_ended || fail "quota does not end"
[[ -z $(cat "$(group_dir "$launcher")/cgroup.procs") ]] || fail "quota: the rank stays in its group"
group=$launcher
job_wait || fail "quota: exited with $?"
[[ -z $(group_dir "$group") ]] || fail "quota leaves its group behind"
begin=$(fault_value begin t_ns) end=$(fault_value end t_ns)
echo "steps of $(steps_ms 0 "$begin") ms, with a quota $(steps_ms "$begin" "$end") ms"
slower || fail "quota: the steps take no longer"

# A killed launcher: the janitor removes the group.
fault_job "cpu:how=quota,rank=$rank,step=$step" "${job[@]}" --steps 1000
group=$launcher
[[ -n $(group_dir "$group") ]] || fail "quota: no group"
job_kill KILL
wait_for 30 eval '[[ -z $(group_dir "$group") ]]' || fail "a killed launcher leaves the group behind"
wait_for 30 nothing_left || fail "quota, killed, leaves behind: $(left)"

# Without the right to it.
setpriv --reuid=65534 --clear-groups "$simjob" --ranks 2 --steps 3 --fault cpu:how=quota 2> "$dir/err"
status=$?
((status == 2)) && grep -q 'cannot limit the CPU in /.*; run as root' "$dir/err" ||
	fail "a quota without root: status $status"
[[ -z $(group_dir '*') ]] || echo "note: another job's group is there"
exit 0
