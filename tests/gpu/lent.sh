#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What is still to be seen on a machine with GPUs, a part an argument, one after the other; results in OUT (8 files at
# most, each below 16 MiB). From the root of the tree, after `make pack`, as root:
#
#     OUT=folder tests/gpu/lent.sh endless phases bound short jax nccltests alltoall week
#
# endless: kernels without end in an ordinary life, SEED (79), two lanes on four GPUs. phases: FSDP2's. bound, short,
# jax: what the trace tier costs jobs that are bound by their GPUs, alone on the machine; short has steps of 5 ms, and
# PyTorch's profiler beside it. nccltests: as a process for each GPU, and with one thread stopped (NCCL_SOURCE: its
# source). alltoall: ours with more and more operations before those that are timed (SKIPS), then beside nccl-tests
# (NCCL_SOURCE, built here with the MPI of tests/gpu/mpi). week: slices of a quarter of an hour of ordinary life at
# 10,240 ranks, LANES (half of the processors) at once from seed FIRST on, for WEEK_S; a lane whose program does not run
# ends.
set -u
export PYTHONUNBUFFERED=1 RANKTRACE=$PWD/build/gpu/ranktrace
: "${OUT:?a folder for the results}"
gpus=$(nvidia-smi -L 2> /dev/null | wc -l)
nccl=$(python3 -c "import nvidia.nccl as n; print(list(n.__path__)[0] + '/lib/libnccl.so.2')" 2> /dev/null)
mount -t tracefs t /sys/kernel/tracing 2> /dev/null
work=$(mktemp -d)

keep() { # name, files of $work: together, if that is not too large
	tar czf "$OUT/$1.tgz" -C "$work" "${@:2}"
	[[ $(stat -c %s "$OUT/$1.tgz") -lt 16000000 ]] || rm -f "$OUT/$1.tgz"
}

endless() {
	local pids=() lane
	for ((lane = 0; 2 * lane + 1 < gpus; lane++)); do
		CUDA_VISIBLE_DEVICES=$((2 * lane)),$((2 * lane + 1)) OUT_DIR=$work/endless$lane RANKS=2 \
			SEED=$((${SEED:-79} + lane)) python3 -B tests/gpu/life.py "both-endless-${TRIALS:-5}" \
			> "$OUT/endless$lane.txt" 2>&1 &
		pids+=($!)
	done
	wait "${pids[@]}"
	tail -n 1 "$OUT"/endless*.txt
	(cd "$work" && find endless* -name '*.rtr' -o -name '*.jsonl' -o -name '*.err') > "$work/list"
	keep endless -T "$work/list"
}

phases() {
	OUT_DIR=$work/phases RANKS=2 SECONDS=${PHASES_S:-30} python3 -B tests/gpu/phases.py fsdp2 |
		tee "$OUT/phases.txt"
	keep phases phases
}

bound() {
	OUT_DIR=$work/bound CUDA_VISIBLE_DEVICES=0,1 TIERS=${TIERS:-watch,trace} SETTLE_S=4 STEPS=200 \
		PAIRS=${PAIRS:-20} python3 -B tests/gpu/overhead.py gpu-bound | tee "$OUT/bound.txt"
	cp "$work/bound/overhead.json" "$OUT/bound.json"
}

short() {
	OUT_DIR=$work/short CUDA_VISIBLE_DEVICES=0,1 TIERS=trace,trace,trace,profiler SETTLE_S=4 STEPS=600 \
		PAIRS=${PAIRS:-6} python3 -B tests/gpu/overhead.py short | tee "$OUT/short.txt"
}

jax() {
	OUT_DIR=$work/jax CUDA_VISIBLE_DEVICES=0,1 TIERS=watch,trace SETTLE_S=4 STEPS=400 PAIRS=${PAIRS:-20} \
		python3 -B tests/gpu/overhead.py jax-large | tee "$OUT/jax.txt"
	cp "$work/jax/overhead.json" "$OUT/jax.json"
}

source_copy() {
	[[ -d $work/nccl-tests ]] || cp -r "${NCCL_SOURCE:-.gpu/nccl-tests}" "$work/nccl-tests"
}

nccltests() {
	source_copy
	OUT_DIR=$work/nt NCCL_TESTS=$work/nccl-tests python3 -B tests/gpu/nccltests.py ${SHAPES:-p stopped} |
		tee "$OUT/nccltests.txt"
}

alltoall() { # a cost of its begin, or of each operation?
	local skip n what="--force --types fp32 --bytes 1M --collectives alltoall,all_reduce --place out --json"
	export LD_LIBRARY_PATH="$(dirname "$nccl"):/usr/local/cuda/lib64"
	for skip in ${SKIPS-5 50 400 2000}; do
		for n in 100 400 3000; do
			echo "skip $skip, timed $n: $("$RANKTRACE" stress nccl --nccl "$nccl" $what --skip $skip \
				--iterations $n 2> /dev/null | grep -o '"us":[0-9.]*' | tr '\n' ' ')"
		done
	done | tee "$OUT/alltoall.txt"
	source_copy
	NCCL_TESTS=$(NCCL_TESTS=$work/nccl-tests python3 -B tests/gpu/nccltests.py build alltoall_perf)
	for n in 400 3000; do
		echo "operations: $n"
		OUT=$work PROCESSES=1 NCCL_TESTS=$NCCL_TESTS SMALL=1 ITERATIONS=$n TURNS=3 \
			COLLECTIVES=alltoall python3 -B tests/gpu/stress_nccl.py rates
	done | tee -a "$OUT/alltoall.txt"
	unset LD_LIBRARY_PATH
}

lane() { # first seed, step, end of the time
	local seed=$1
	while ((SECONDS < $3)); do
		GLIBC_TUNABLES=glibc.malloc.hugetlb=1 nice -n 19 "$RANKTRACE" sim cluster -n 10240 -s "$seed" \
			--life 0.25 > "$work/week/$seed.jsonl" 2> "$work/week/$seed.err" || return
		seed=$((seed + $2))
	done
}

week() {
	local lanes=${LANES:-$(($(nproc) / 2))} first=${FIRST:-2001} end=$((SECONDS + ${WEEK_S:-400})) i
	mkdir -p "$work/week"
	for ((i = 0; i < lanes; i++)); do
		lane $((first + i)) "$lanes" "$end" &
	done
	sleep "${WEEK_S:-400}"
	pkill -f "sim cluster"
	wait
	cat "$work"/week/*.err | sort | uniq -c | head -n 5
	keep week week
}

for part in "$@"; do
	case $part in
	endless | phases | bound | short | jax | nccltests | alltoall | week) $part ;;
	*) echo "lent.sh: no such part: $part" >&2; exit 2 ;;
	esac
	echo "$part: done after $SECONDS s"
done
