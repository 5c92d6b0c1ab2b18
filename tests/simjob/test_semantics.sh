#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds semantics.c against the stand-ins, for each layout of struct ncclComm, and runs it.
. "$(dirname "$0")/job.bash"
for layout in 0 1 2; do
	nccl=$sim_dir/layout$layout/libnccl.so.2
	[[ -e $nccl ]] || nccl=$sim_dir/libnccl.so.2
	${CC:-gcc} -std=gnu11 -g -D_GNU_SOURCE -DSIM_LAYOUT=$layout -I. -o "$dir/semantics" "$here/semantics.c" \
		tools/simjob/nccl/comm_hash.c "$nccl" "$sim_dir/libcuda.so.1" -pthread \
		-Wl,-rpath,"$(dirname "$nccl")" -Wl,-rpath,"$sim_dir" || fail "semantics.c does not build"
	timeout 60 "$dir/semantics" || fail "layout $layout"
done
