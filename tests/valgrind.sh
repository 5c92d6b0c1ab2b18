#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Unit programs under valgrind's memcheck, JOBS at a time: use of what was never written, which no sanitizer of gcc
# sees. Only those that take SECONDS_MOST (1) at most without it: it makes them 20 to 50 times slower. A program whose
# own checks fail there (a time bar, a read of the process from outside) but that has no error of memory is listed, and
# is no failure: `make test` judges those. Children are silent: what they do is tested as a program of its own.
cd "$(dirname "$0")/.." || exit 2
export O=${O:-build} SECONDS_MOST=${SECONDS_MOST:-1}
out=$(mktemp -d)
export out
trap 'rm -rf "$out"' EXIT

one() { # program
	local name=${1##*/} status log=$out/${1##*/}.log
	timeout "$SECONDS_MOST" "$1" > "$log" 2>&1 < /dev/null
	status=$?
	((status == 124)) && { echo "long $name"; return; }
	((status == 0)) || { echo "other $name: ends with $status without valgrind"; return; }
	timeout 300 valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite \
		--child-silent-after-fork=yes --suppressions=tests/valgrind.supp "$1" > "$log" 2>&1 < /dev/null
	status=$?
	case $status in
	0) echo "clean $name" ;;
	124) echo "long $name" ;;
	99) echo "error $name"; grep -E '^==' "$log" | head -n 40 >&2 ;;
	*) grep -q '^==[0-9]*== *[A-Z]' "$log" && { echo "error $name"; grep -E '^==' "$log" | head -n 40 >&2; return; }
		echo "other $name: ends with $status" ;;
	esac
}
export -f one

for t in "$O"/tests/test_*; do
	# shellcheck disable=SC2053 # a pattern
	[[ -x $t && ! -d $t && ${t##*/} == ${ONLY:-*} ]] && echo "$t"
done | xargs -P "${JOBS:-$(nproc)}" -n 1 bash -c 'one "$1"' bash > "$out/results"
grep -vE '^(clean|long)' "$out/results"
awk '{ n[$1]++ } END { printf "valgrind: %d programs clean, %d with errors, %d too long for it, %d no judgement\n",
	n["clean"], n["error"], n["long"], n["other"]; exit n["error"] > 0 || !n["clean"] }' "$out/results"
