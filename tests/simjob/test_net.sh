#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --net: data over sockets, unix and TCP, come to the same results in every build and layout, with graphs and all
# operations, TCP also between network namespaces; its faults strike who they say they do, in the state they say;
# nothing is left of a job that is killed.
. "$(dirname "$0")/job.bash"

result_of() { # options...
	"$simjob" -q --seed "$seed" --result "$dir/result" "$@" 2> "$dir/err" || fail "$*: exited with $?"
	sort "$dir/result" | md5sum
}
check_same() {
	local without
	without=$(result_of "$@")
	[[ $without == "$(result_of "$@" --net)" ]] || fail "$*: other results with --net"
	[[ $without == "$(result_of "$@" --net=tcp)" ]] || fail "$*: other results with --net=tcp"
}
check_same --ranks 4 --steps 8 --step-ms 10
check_same --ranks 8 --steps 5 --step-ms 10 --layout tp=2,dp=2,pp=2 --zero --nccl-lib "$sim_dir/layout1/libnccl.so.2"
check_same --ranks 4 --steps 8 --step-ms 10 --graph layers --nccl-lib "$sim_dir/layout2/libnccl.so.2"
check_same --ranks 2 --steps 8 --step-ms 10 --extra-ops --timing
check_same --ranks 2 --steps 5 --step-ms 10 --rank-exe "$sim_dir/simjob-static"
slices=$(SIM_NCCL_SLICE_BYTES=70001 result_of --ranks 4 --steps 8 --step-ms 10 --net=tcp)
[[ $slices == "$(result_of --ranks 4 --steps 8 --step-ms 10)" ]] || fail "other results with slices of 70001 bytes"

# Each rank on a host of its own: a network namespace on a bridge that is in one, too, so that nothing is left on this
# one.
hosts=simnet$$-
hosts_end() { local i; for i in 0 1 2 3 hub; do ip netns del "$hosts$i" 2> /dev/null; done; clean_up; }
hosts_begin() {
	local i
	ip netns add "${hosts}hub" 2> /dev/null || return 1
	trap hosts_end EXIT
	ip -n "${hosts}hub" link add br0 type bridge && ip -n "${hosts}hub" link set br0 up || return 1
	for i in 0 1 2 3; do
		ip netns add "$hosts$i" &&
			ip -n "$hosts$i" link add eth0 type veth peer name "host$i" netns "${hosts}hub" &&
			ip -n "$hosts$i" addr add "10.77.0.$((i + 1))/24" dev eth0 &&
			ip -n "$hosts$i" link set eth0 up &&
			ip -n "${hosts}hub" link set "host$i" master br0 up || return 1
	done
}
if hosts_begin; then
	job=(--ranks 4 --steps 8 --step-ms 10)
	[[ $(result_of "${job[@]}") == "$(result_of "${job[@]}" --net=tcp --netns "$hosts")" ]] ||
		fail "other results between hosts"
	NCCL_SOCKET_IFNAME=ib "$simjob" "${job[@]}" --net=tcp --netns "$hosts" 2> "$dir/err" &&
		fail "NCCL_SOCKET_IFNAME is not looked at"
	grep -q "begins with ib" "$dir/err" || fail "no interface: not said so"
else
	echo "no network namespaces or bridge here: hosts of their own were not tried"
fi

export NCCL_SET_THREAD_NAME=1
rank=$((RANDOM % 4)) step=$((3 + RANDOM % 5))
echo "rank $rank step $step"
transports=(unix tcp)
transport=${transports[RANDOM % 2]}
echo "faults with --net=$transport"
job=(--ranks 4 --steps 4000 --step-ms 10 --net="$transport")
thread() { cat "/proc/$pid/task/$(fault_value begin tid)/$1"; }
stopped_in_futex() { [[ $(uname -m) != x86_64 || $(thread syscall | cut -d' ' -f1) == 202 ]]; }

# The network delivers nothing: all ranks live, their proxies look about, and nobody calls anything.
fault_job "inside:rank=$rank,step=$step" "${job[@]}"
[[ $(rank_of "$pid") == "$rank" && $(fault_value begin sender) == "$rank" ]] || fail "inside: $(cat "$dir/faults")"
[[ $(fault_value begin receiver) == $(((rank + 1) % 4)) ]] || fail "inside: the receiver is not the next of the ring"
wait_for 10 quiet || fail "inside: the job goes on"
[[ $(thread comm) == "NCCL Progress"* ]] || fail "inside: tid is no proxy"
# The sender's may be through: the network took all it had. The receiver's is not.
turns() {
	local p t run wait n sum=0
	for p in $(pgrep -P "$launcher"); do
		for t in "/proc/$p/task"/*; do
			[[ $(cat "$t/comm" 2> /dev/null) == "NCCL Progress"* ]] &&
				read -r run wait n < "$t/schedstat" && sum=$((sum + n))
		done
	done
	echo "$sum"
}
before=$(turns)
wait_for 5 eval '(($(turns) > before + 3))' || fail "inside: no proxy looks any more"
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
for bad in "--net=pigeon" "--net --netns x" "--fault inside" "--fault proxy:how=stop" "--net --fault inside --ranks 1" \
	"--net --graph step --fault inside"; do
	# shellcheck disable=SC2086
	"$simjob" $bad 2> "$dir/err"
	[[ $? == 2 ]] || fail "$bad: status is not 2"
done
exit 0
