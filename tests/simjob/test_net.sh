#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --net: data over sockets come to the same results in every build and layout, with graphs and all operations; its faults
# strike who they say they do, in the state they say; nothing is left of a job that is killed.
. "$(dirname "$0")/job.bash"

result_of() { # options...
	"$simjob" -q --seed "$seed" --result "$dir/result" "$@" 2> "$dir/err" || fail "$*: exited with $?"
	sort "$dir/result" | md5sum
}
check_same() { [[ $(result_of "$@") == "$(result_of "$@" --net)" ]] || fail "$*: other results with --net"; }
check_same --ranks 4 --steps 8 --step-ms 10
check_same --ranks 8 --steps 5 --step-ms 10 --layout tp=2,dp=2,pp=2 --zero --nccl-lib "$sim_dir/layout1/libnccl.so.2"
check_same --ranks 4 --steps 8 --step-ms 10 --graph layers --nccl-lib "$sim_dir/layout2/libnccl.so.2"
check_same --ranks 2 --steps 8 --step-ms 10 --extra-ops --timing
check_same --ranks 2 --steps 5 --step-ms 10 --rank-exe "$sim_dir/simjob-static"

export NCCL_SET_THREAD_NAME=1
rank=$((RANDOM % 4)) step=$((3 + RANDOM % 5))
echo "rank $rank step $step"
job=(--ranks 4 --steps 4000 --step-ms 10 --net)
thread() { cat "/proc/$pid/task/$(fault_value begin tid)/$1"; }
stopped_in_futex() { [[ $(uname -m) != x86_64 || $(thread syscall | cut -d' ' -f1) == 202 ]]; }

# The network delivers nothing: all ranks live, their proxies look about, and nobody calls anything.
fault_job "inside:rank=$rank,step=$step" "${job[@]}"
[[ $(rank_of "$pid") == "$rank" && $(fault_value begin sender) == "$rank" ]] || fail "inside: $(cat "$dir/faults")"
[[ $(fault_value begin receiver) == $(((rank + 1) % 4)) ]] || fail "inside: the receiver is not the next of the ring"
wait_for 10 quiet || fail "inside: the job goes on"
before=$(thread schedstat | cut -d' ' -f3)
[[ $(thread comm) == "NCCL Progress"* ]] || fail "inside: tid is no proxy"
wait_for 5 eval '(($(thread schedstat | cut -d" " -f3) > before + 3))' || fail "inside: the proxy does not look any more"
job_kill TERM

fault_job "proxy:rank=$rank,step=$step,how=stop" "${job[@]}"
wait_for 10 quiet || fail "proxy stop: the job goes on"
wait_for 5 stopped_in_futex || fail "proxy stop: the proxy is in $(thread syscall)"
task_is "$pid" S || fail "proxy stop: the process is $(task_state "$pid")"
job_kill TERM

fault_job "proxy:rank=$rank,step=$step,how=sigstop" "${job[@]}"
wait_for 10 task_is "$pid" T || fail "proxy sigstop: the process is $(task_state "$pid")"
wait_for 10 quiet || fail "proxy sigstop: the job goes on"
job_kill TERM

# The job creeps on; its proxy waits for a CPU more than it runs.
fault_job "proxy:rank=$rank,step=$step,how=starve,n=2" "${job[@]}"
waits() {
	local run wait rest
	read -r run wait rest < <(thread schedstat)
	((wait > 100000000 && wait > 4 * run))
}
wait_for 20 waits || fail "proxy starve: the proxy ran and waited $(thread schedstat) ns"
[[ $(pgrep -c -P "$launcher" simjob-hog) == 2 ]] || fail "proxy starve: not two hogs"
job_kill TERM
wait_for 10 nothing_left || fail "left: $(left)"

# A job killed in the middle leaves nothing, its sockets have no names in any file system.
job_start "${job[@]}"
wait_for 20 eval '(($(log_lines) > 20))' || fail "the job does not begin"
job_kill KILL
wait_for 10 nothing_left || fail "left after SIGKILL: $(left)"

# What cannot be is refused.
for bad in "--fault inside" "--fault proxy:how=stop" "--net --fault inside --ranks 1" "--net --graph step --fault inside"; do
	# shellcheck disable=SC2086
	"$simjob" $bad 2> "$dir/err"
	[[ $? == 2 ]] || fail "$bad: status is not 2"
done
exit 0
