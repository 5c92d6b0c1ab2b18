#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the tests from inside against the stand-ins, for each layout of struct ncclComm, and runs them.
. "$(dirname "$0")/job.bash"
for layout in 0 1 2; do
	nccl=$sim_dir/layout$layout/libnccl.so.2
	[[ -e $nccl ]] || nccl=$sim_dir/libnccl.so.2
	for program in semantics graphs calls; do
		${CC:-gcc} -std=gnu11 -g -D_GNU_SOURCE -DSIM_LAYOUT=$layout -I. -o "$dir/$program" "$here/$program.c" \
			tools/simjob/libnccl/comm_hash.c "$nccl" "$sim_dir/libcuda.so.1" -pthread \
			-Wl,-rpath,"$(dirname "$nccl")" -Wl,-rpath,"$sim_dir" || fail "$program.c does not build"
		thrice timeout 60 "$dir/$program" || fail "$program, layout $layout"
	done
done
