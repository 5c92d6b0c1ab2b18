#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The kernel matrix: tests/vm/run.sh quick|all. One guest after the other (each takes both cores), what passed on which
# kernel in $O/vm/result, lines of "kernel release machine case: text", from which table.py makes the README's. Exit 77:
# nothing could be run.
cd "$(dirname "$0")/../.." || exit 2
O=${O:-build}
export O
mkdir -p "$O/vm"
result=$O/vm/result
: > "$result.new"
failed=() skipped=() n=0

note() { # kernel, log
	awk -v k="$1" '$1 == "KERNEL" { r = $2; m = $3 } $1 == "PASSED" { sub(/^PASSED /, ""); print k, r, m, $0 }' \
		"$2" >> "$result.new"
}

# Its begin says what was wrong, its end what came of it; of progress lines between, asked for twice a second, few tell
# anything.
excerpt() { # log
	awk '/ s: [0-9]+ processes, .* lost$/ { if (++n % 20 != 1) next } { print }' "$1" | cut -c1-300 |
		awk '{ l[NR] = $0 } END { for (i = 1; i <= NR; i++) if (i <= 18 || i > NR - 18) print "    " l[i] }'
}

check() { # kernel, command...
	local kernel=$1 log=$O/vm/log.$1 begin=$SECONDS status
	shift
	"$@" > "$log" 2>&1
	status=$?
	note "$kernel" "$log"
	grep -E '^(KERNEL|PASSED|guest .* (did not come up|panicked))' "$log" | sed 's/^/  /'
	case $status in
	0) echo "ok: $kernel, $((SECONDS - begin)) s"; n=$((n + 1)) ;;
	77) skipped+=("$kernel: $(tail -n 1 "$log")") ;;
	*) failed+=("$kernel"); echo "FAILED: $kernel (status $status):"; excerpt "$log" ;;
	esac
}

in_guest() { # kernel, seconds, cases...
	local kernel=$1 seconds=$2
	shift 2
	check "$kernel" tests/vm/guest.sh "$kernel" --seconds "$seconds" -- python3 -B tests/vm/guest_job.py "$@"
}

case ${1:-} in
quick)
	in_guest 5.10 400 count hang
	in_guest 6.1 300 count
	;;
all)
	in_guest 5.10 600 programs count hang dstate
	in_guest 6.1 600 programs count count-attach-cookie hang dstate
	in_guest 6.12 600 programs count count-uprobe-multi hang dstate
	check host python3 -B tests/vm/guest_job.py programs count count-uprobe-multi count-attach-cookie hang dstate
	check 6.1-arm64 tests/vm/arm64.sh
	check stress-rdma env LONG=1 tests/vm/test_stress_rdma.sh
	;;
*) sed -n '3,4s/^# //p' "$0" >&2; exit 2 ;;
esac
mv "$result.new" "$result"
for s in "${skipped[@]}"; do echo "skipped: $s"; done
((${#failed[@]})) && { echo "failed on: ${failed[*]}"; exit 1; }
((n)) || { echo "no kernel could be run: ${skipped[0]}"; exit 77; }
