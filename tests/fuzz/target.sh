# SPDX-License-Identifier: Apache-2.0
# How a fuzz target runs and what its log says, for run.sh and for the pack's scripts, which source it.
export UBSAN_OPTIONS=print_stacktrace=1

# target_run TARGET CRASHES ARGUMENT...: what crashes it becomes a file CRASHES*. With detect_leaks=0 no leak is looked
# for.
target_run() {
	local target=$1 crashes=$2 leaks=${detect_leaks:-1}
	shift 2
	ASAN_OPTIONS=detect_leaks=$leaks:allocator_may_return_null=1 "$target" -rss_limit_mb=2048 -timeout=10 \
		-max_len=65536 -len_control=0 -print_final_stats=1 -artifact_prefix="$crashes" "$@"
}

# log_number LOG PATTERN: the last number of the last match
log_number() {
	grep -oE "$2" "$1" | tail -n 1 | grep -o '[0-9]*$'
}
