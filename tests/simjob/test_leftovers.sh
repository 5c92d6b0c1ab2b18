#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# runs beside few: loop devices that another job has taken meanwhile are waited for
# A killed launcher takes everything along: ranks that run, are stopped, or sleep on a frozen file system; dataloaders,
# mounts, loop devices, shared memory.
. "$(dirname "$0")/job.bash"
[[ $EUID == 0 ]] || skip "needs root for a frozen file system"
kill_at() { # what, options...
	local what=$1
	shift
	rm -f "$dir/faults"
	job_start --ranks 4 --steps 1000 --step-ms 20 "$@"
	wait_for 20 "$what" || fail "$*: does not come to where it is killed"
	sleep 0.3
	local loops
	loops=$(loops_mounted)
	[[ $* == *dstate* && -z $loops ]] && fail "no loop device in use"
	job_kill KILL
	wait_for 10 nothing_left $loops || fail "$* leaves behind: $(left)"
}
running() { (($(log_lines) > 100)); }

kill_at running
kill_at fault_began --fault stop:rank=1,step=5
kill_at fault_began --fault hang:rank=1,step=5
kill_at fault_began --fault dstate:rank=1,step=5,sec=600
kill_at fault_began --fault dstate-mm:rank=1,step=5,sec=600
kill_at fault_began --fault dstate-child:rank=1,step=5,sec=600
kill_at fault_began --fault init:rank=1,how=stop
kill_at fault_began --fault cpu:rank=1,step=5,n=2 --fault dstate:rank=2,step=9,sec=600
kill_at fault_began --fault phase:what=checkpoint,step=5,sec=600

# During the set-up, at any moment. The loop device may be attached and not mounted yet: all that have come since are
# waited for, another job's, too, which ends in this time.
for delay in 0.01 0.05 0.1 0.2; do
	before=$(loops_attached)
	job_start --ranks 4 --steps 1000 --fault dstate:rank=1,step=5
	sleep $delay
	since=$(comm -13 <(sort <<< "$before") <(loops_attached | sort))
	job_kill KILL
	since+=" $(comm -13 <(sort <<< "$before") <(loops_attached | sort))"
	wait_for 60 nothing_left $since || fail "killed after $delay s it leaves: $(left)"
done

# SIGTERM and SIGINT go on to the ranks and make the job exit with 1; a rank in D is waited for.
for signal in TERM INT; do
	rm -f "$dir/faults"
	job_start --ranks 4 --steps 1000 --step-ms 20 --fault dstate:rank=2,step=5,sec=3
	wait_for 20 fault_began || fail "no D state"
	loops=$(loops_mounted)
	job_kill $signal
	[[ $? == 1 ]] || fail "SIG$signal: exit status is not 1"
	wait_for 5 nothing_left $loops || fail "SIG$signal leaves behind: $(left)"
done

# One rank dies: the others follow, and the launcher says so.
rm -f "$dir/log"
job_start --ranks 4 --steps 1000 --step-ms 20
wait_for 20 running || fail "the job does not start"
kill -KILL "$(head -n 1 "$dir/log" | jq .pid)"
job_wait && fail "a dead rank and exit status 0"
grep -q 'was killed by signal 9' "$dir/err" || fail "the launcher does not say who died"
wait_for 5 nothing_left || fail "a dead rank leaves behind: $(left)"

# With --linger-sec the peers wait on.
rm -f "$dir/log"
job_start --ranks 4 --steps 1000 --step-ms 20 --linger-sec 60
wait_for 20 running || fail "the job does not start"
victim=$(head -n 1 "$dir/log" | jq .pid)
kill -KILL "$victim"
sleep 1
(($(pgrep -P "$launcher" | wc -l) == 3)) || fail "the peers do not wait"
job_kill KILL
wait_for 10 nothing_left || fail "a lingering job leaves behind: $(left)"
