#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests (ONLY, as of run.sh) with the build in O, which has a sanitizer. What a sanitizer reports, of whatever process,
# is a file in O/reports, and a failure also where each test passed: a helper that ends by a report is started anew, and
# a worker has no standard error.
cd "$(dirname "$0")/.." || exit 2
export O=${O:-build/asan} SANITIZED=1 # for tests: no limit of memory holds, a sanitizer's shadow has terabytes
SHOWN=5 # reports
mkdir -p "$O" && reports=$(realpath "$O")/reports || exit 2
rm -rf "$reports"
mkdir -m 1777 "$reports" || exit 2 # a worker is nobody
for options in ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS; do
	export "$options=${!options:+${!options}:}log_path=$reports/report:print_stacktrace=1"
done
tests/run.sh
status=$?
shopt -s nullglob
all=("$reports"/*)
((${#all[@]})) || exit $status
echo "${#all[@]} reports of a sanitizer in $reports:"
for report in "${all[@]:0:SHOWN}"; do head -n 40 "$report" | sed 's/^/    /'; done
exit 1
