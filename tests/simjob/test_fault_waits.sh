#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fault waits: each kind sits where it says it does, for its time, with the other side that it names, and leaves nothing
# behind.
. "$(dirname "$0")/job.bash"
rank=$((RANDOM % 4)) step=$((3 + RANDOM % 8))
echo "rank $rank step $step"

in_call() { [[ $(uname -m) != x86_64 || $(cut -d' ' -f1 "/proc/$1/syscall") == "$2" ]]; }

waits_job() { # what, number of the system call
	fault_job "waits:what=$1,rank=$rank,step=$step,sec=4" --ranks 4 --steps 40 --step-ms 20
	[[ $(fault_value begin rank) == "$rank" && $(fault_value begin what) == "$1" ]] || fail "$1 strikes elsewhere"
	[[ $1 == worker ]] && pid=$(awk '{ print $4 }' "/proc/$pid/stat")
	[[ $(rank_of "$pid") == "$rank" ]] || fail "$1: pid $pid is not rank $rank"
	wait_for 3 in_call "$pid" "$2" || fail "$1: in system call $(cat "/proc/$pid/syscall"), not $2"
	task_is "$pid" S || fail "$1: state $(task_state "$pid")"
	quiet || fail "$1: the job goes on"
	peer=$(fault_value begin peer_pid)
	[[ $peer == null || $(cat "/proc/$peer/comm") == object-store ]] || fail "$1: pid $peer is no object store"
	[[ $peer == null || $(rank_of "$peer") == "" ]] || fail "$1: the object store has a rank"
}

waits_end() { # what
	job_wait || fail "$1: exited with $?"
	fault_ended || fail "$1 does not end"
	ms=$((($(fault_value end t_ns) - $(fault_value begin t_ns)) / 1000000))
	((ms >= 3900 && ms <= $(at_most_ms 4))) || fail "$1 lasted $ms ms"
	wait_for 5 nothing_left || fail "$1 leaves $(left)"
}

waits_job store 45
[[ -n $(ls -l "/proc/$peer/fd" 2> /dev/null | grep socket:) ]] || fail "store: no connection at the other end"
waits_end store
waits_job worker 0
waits_end worker
waits_job mutex 202
tid=$(fault_value begin tid)
[[ $(cat "/proc/$pid/task/$tid/comm") == pt_ckpt_writer ]] || fail "mutex: thread $tid is not of the rank"
waits_end mutex
waits_job timer 230
waits_end timer
waits_job fifo 0
[[ -p $(fault_value begin path) ]] || fail "fifo: no FIFO at $(fault_value begin path)"
waits_end fifo
[[ ! -e $(fault_value begin path) ]] || fail "fifo: it stays"
"$simjob" --fault waits:what=worker --no-dataloader 2> "$dir/err" && fail "worker without a dataloader is taken"
"$simjob" --fault waits:rank=1 2> "$dir/err" && fail "waits without what= is taken"
exit 0
