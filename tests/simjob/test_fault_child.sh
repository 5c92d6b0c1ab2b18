#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# D state in the dataloader child only: the letter in /proc, the rank's own state, and whether the job waits.
. "$(dirname "$0")/job.bash"
[[ $EUID == 0 ]] || skip "needs root for a frozen file system"
rank=$((RANDOM % 4)) step=$((3 + RANDOM % 8))
echo "rank $rank step $step"

child_job() {
	fault_job "dstate-child:rank=$rank,step=$step,$1" --ranks 4 --steps "$2" --step-ms 20
	grep -q 'by vfork' "$dir/err" && skip "no frozen file system here: $(grep vfork "$dir/err" | head -n 1)"
	wait_for 3 task_is "$pid" D || fail "dstate-child $1: state $(task_state "$pid")"
	[[ $(fault_value begin rank) == "$rank" && $(fault_value begin step) == "$step" ]] ||
		fail "dstate-child strikes elsewhere"
	parent=$(awk '{ print $4 }' "/proc/$pid/stat")
	[[ $(cat "/proc/$pid/comm") == pt_data_worker && $(rank_of "$parent") == "$rank" ]] ||
		fail "dstate-child: pid $pid is not the dataloader of rank $rank"
}

# The rank waits for its batch in the pipe, the others for the rank.
child_job sec=8 20
quiet || fail "dstate-child: the job goes on"
wait_for 5 task_is "$parent" S || fail "dstate-child: the rank is in state $(task_state "$parent")"
[[ $(uname -m) != x86_64 || $(cut -d' ' -f1 "/proc/$parent/syscall") == 0 ]] ||
	fail "dstate-child: the rank is not in read()"
task_is "$pid" D || fail "dstate-child: not for its whole time"
job_wait || fail "dstate-child: exited with $?"
fault_ended || fail "dstate-child does not end"
ms=$((($(fault_value end t_ns) - $(fault_value begin t_ns)) / 1000000))
((ms >= 7500 && ms <= $(at_most_ms 8))) || fail "dstate-child lasted $ms ms"

# Batches in memory: the job goes on meanwhile, and takes the child's again afterwards.
child_job sec=6,wait=0 400
lines=$(log_lines)
wait_for 4 eval '(($(log_lines) > lines + 50))' || fail "dstate-child, wait=0: the job does not go on"
task_is "$pid" D || fail "dstate-child, wait=0: the child is in state $(task_state "$pid")"
wait_for 12 fault_ended || fail "dstate-child, wait=0, does not end"
written() { sed -n 's/^wchar: //p' "/proc/$pid/io"; }
first=$(written)
wait_for 5 eval '(($(written) > first))' || fail "dstate-child, wait=0: its batches are not taken any more"
job_wait || fail "dstate-child, wait=0: exited with $?"
