#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Jobs without a fault, 23 steps each: exit 0, no leftovers, and a log that agrees with itself and with the layout.
. "$(dirname "$0")/job.bash"

# run TP DP PP STEPS LAYERS MICROBATCHES BUCKETS ZERO EXTRA [more options]
run() {
	local tp=$1 dp=$2 pp=$3 steps=$4 layers=$5 micro=$6 buckets=$7 zero=$8 extra=$9
	local numbers=("${@:1:9}") options=() graph=none
	shift 9
	((zero)) && options+=(--zero)
	((extra)) && options+=(--extra-ops)
	[[ $1 == --graph ]] && graph=$2
	job_start --ranks $((tp * dp * pp)) --layout "tp=$tp,dp=$dp,pp=$pp" --steps "$steps" --layers "$layers" \
		--microbatches "$micro" --buckets "$buckets" --step-ms 20 "${options[@]}" "$@"
	job_wait || fail "tp=$tp dp=$dp pp=$pp exited with $?"
	python3 -B "$here/check_log.py" "$dir/log" "${numbers[@]}" "$graph" ||
		fail "tp=$tp dp=$dp pp=$pp: the log is wrong"
	[[ -s $dir/faults ]] && fail "a fault without being asked for"
	grep -q 'ran 23 steps' "$dir/err" || fail "no summary"
	nothing_left || fail "left behind: $(left)"
}

run 1 2 1 23 4 1 4 0 0
run 2 1 1 23 4 1 4 0 0
run 1 4 1 23 3 2 5 1 0
run 2 1 2 23 4 4 4 0 1
run 1 8 1 23 4 1 4 0 1
run 2 2 2 23 4 4 4 0 0
run 1 2 4 23 2 6 3 1 1 --sync step --no-dataloader
run 1 1 3 23 2 3 1 0 1 --nccl-lib "$sim_dir/layout1/libnccl.so.2"
run 2 2 1 23 4 1 4 0 1 --timing --expandable-segments
run 1 2 1 23 4 1 4 0 0 --graph step
run 2 2 2 23 3 4 4 1 1 --graph step
run 2 1 2 23 2 4 4 0 0 --graph layers
run 2 2 1 23 2 1 3 0 1 --graph layers --sync step

# Out of memory once: cached memory goes back and the job goes on. Any other error ends the rank, as in PyTorch.
SIM_CUDA_FAIL=cuMemAlloc_v2:after=4:error=2:rank=1 run 1 2 1 23 4 1 4 0 0
fails() { # what stderr has to say, SIM_CUDA_FAIL
	SIM_CUDA_FAIL=$2 job_start --ranks 2 --steps 1000 --step-ms 10
	job_wait && fail "$2: the job goes on"
	grep -qE "$1" "$dir/err" || fail "$2: does not say '$1'"
}
fails 'rank 1: watchdog: .* on communicator .*: CUDA_ERROR_LAUNCH_FAILED; aborting' \
	cuEventQuery:after=10:error=719:rank=1
fails 'cuLaunchKernel in pid [0-9]+ failed: CUDA_ERROR_OUT_OF_MEMORY' cuLaunchKernel:after=30:rank=0
