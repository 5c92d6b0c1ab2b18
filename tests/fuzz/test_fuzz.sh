#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every fuzz target for a second (LONG=1: two), always with the same first input: what a crash once found stays fixed.
# `make fuzz` looks for new ones. Needs clang's libFuzzer.
cd "$(dirname "$0")/../.." || exit 2
O=${O:-build}
ls "$O"/fuzz/quick/fuzz_* > /dev/null 2>&1 || {
	echo "skipped: no fuzz target was built: clang lacks its libFuzzer runtime (libclang-rt-*-dev)"
	exit 77
}
for source in tests/fuzz/fuzz_*.c; do
	target=${source##*/}
	[[ -x $O/fuzz/quick/${target%.c} ]] || { echo "FAILED: $source was not built"; exit 1; }
done
for input in tests/fuzz/found/*; do
	target=${input##*/}
	[[ -e tests/fuzz/fuzz_${target%%-*}.c ]] || { echo "FAILED: $input is no target's: nobody runs it"; exit 1; }
done
FUZZ_FROM=$O/fuzz/quick SECONDS_EACH=${SECONDS_EACH:-$((${LONG:+1}+1))} FUZZ_SEED=${FUZZ_SEED:-1} tests/fuzz/run.sh
