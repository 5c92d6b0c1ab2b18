#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a job computes depends on the seed and on what is communicated, and on no timing: not on faults that only cost
# time, on where the operations run, or on the build of NCCL.
. "$(dirname "$0")/job.bash"
result() { # name, options...
	rm -f "$dir/log"
	job_start --ranks 4 --layout tp=2,pp=2 --steps 12 --step-ms 10 --result "$dir/$1" "${@:2}"
	job_wait || fail "$*: exited with $?"
	(($(wc -l < "$dir/$1") == 4)) || fail "$*: not a line for each rank"
	jq -se '[.[].rank] == [range(4)] and ([.[].result] | unique | length == 4)' "$dir/$1" > /dev/null ||
		fail "$*: $(cat "$dir/$1")"
}
same() { cmp -s "$dir/first" "$dir/$1" || fail "$1: another result"; }
differs() { ! cmp -s "$dir/first" "$dir/$1" || fail "$1: the same result"; }

result first
for other in again:--timing step:--graph=step layers:--graph=layers hang:--fault=hang:sec=1 \
	slow:--fault=slow:percent=100 "layout:--nccl-lib=$sim_dir/layout1/libnccl.so.2"; do
	result "${other%%:*}" "${other#*:}"
	same "${other%%:*}"
done
result mismatch --fault mismatch:what=dtype
differs mismatch
result extra --extra-ops
differs extra
seed=$((seed + 1)) result seed
differs seed
