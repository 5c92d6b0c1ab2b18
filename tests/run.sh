#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs every test that needs no GPU and counts. A test is a file found by listing: unit programs, one after the other, then
# test_* scripts, SLOTS (3) at a time, the guests' first. Exit status of a test: 0 passed, 77 skipped (its last line says why), else failed.
# A script with a line "# runs alone: REASON" (or "# runs alone with LONG=1: REASON") among its first 6 runs when all others are
# through. A script that failed runs once more, alone: if it passes then it counts as passed, and is listed as flaky.
# ONLY=pattern runs a part.
cd "$(dirname "$0")/.." || exit 2
O=${O:-build} SLOTS=${SLOTS:-3} RETRY_S=${RETRY_S:-300}
export LONG=${LONG:-} VM_CACHE=${VM_CACHE:-$O/vm}
log_dir=$O/tests/log
mkdir -p "$log_dir"
results=$(mktemp) # lines of "status name"

clean_up() {
	local p
	for p in $(jobs -p); do pkill -TERM -P "$p"; done
	rm -rf "$results" "$O/slot"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

log_of() { echo "$log_dir/${1//\//_}.log"; }

run_one() { # name, build, command...
	local name=$1 build=$2 log begin=$SECONDS status word
	log=$(log_of "$name")
	shift 2
	O=$build timeout --kill-after=10 "${TEST_TIMEOUT:-600}" "$@" > "$log" 2>&1 < /dev/null
	status=$?
	case $status in
	0) word=ok ;;
	77) word="skip: $(tail -n 1 "$log")" ;;
	*) word=$(echo "FAILED ($status), log: $log"; tail -n 40 "$log" | sed 's/^/    /') ;;
	esac
	printf '%-44s %4d s  %s\n' "$name" $((SECONDS - begin)) "$word"
	echo "$status $name" >> "$results"
}

run_script() { # path below tests/, build
	case $1 in
	unit/*) run_one "$1" "$2" "$2/tests/${1#unit/}" ;;
	*.sh) run_one "$1" "$2" bash "tests/$1" ;;
	*.py) run_one "$1" "$2" python3 -B "tests/$1" ;;
	esac
}

# Probes go on inodes: jobs of two slots must not share a library, so each has a copy of the build (a link is no copy). And a test
# that holds an mmap_lock keeps probes out of every file of the same build-id: the copies' libraries have build-ids of their own.
slot_make() {
	local part id
	rm -rf "$O/slot/$1" && mkdir -p "$O/slot/$1" || exit 2
	for part in "$O"/*; do
		[[ $part == "$O/slot" || $part == "$O/vm" ]] || cp -a --reflink=auto "$part" "$O/slot/$1/" || exit 2
	done
	find "$O/slot/$1/lib" -type f | while read -r part; do
		id=$(mktemp)
		objcopy -O binary --only-section=.note.gnu.build-id "$part" "$id" 2> /dev/null && [[ -s $id ]] &&
			{ head -c 16 "$id"; head -c 20 /dev/urandom; } | head -c "$(stat -c %s "$id")" > "$id.new" &&
			objcopy --update-section ".note.gnu.build-id=$id.new" "$part"
		rm -f "$id" "$id.new"
	done
}

run_in_slots() { # scripts
	local script pid slot free=() slot_of=()
	for ((slot = 1; slot <= SLOTS; slot++)); do
		slot_make "$slot"
		free+=("$slot")
	done
	for script; do
		if ((${#free[@]} == 0)); then
			wait -n -p pid
			free=("${slot_of[pid]}")
		fi
		slot=${free[0]}
		free=("${free[@]:1}")
		run_script "$script" "$O/slot/$slot" &
		slot_of[$!]=$slot
	done
	wait
}

# Of what failed, each once more, while there is time for it: a broken build shall not take twice as long.
run_again() {
	local name begin=$SECONDS status
	while read -r status name; do
		((SECONDS - begin < RETRY_S)) || break
		mv "$(log_of "$name")" "$(log_of "$name").first"
		echo "once more, alone:"
		run_script "$name" "$O"
	done < <(awk '$1 != 0 && $1 != 77' "$results")
}

# shellcheck disable=SC2053 # ONLY is a pattern
wanted() { [[ -z ${ONLY:-} || $1 == $ONLY ]]; }

runs_alone() { head -n 6 "$1" | grep -qE "^# runs alone${LONG:+( with LONG=1)?}: "; }

together=() alone=()
for path in tests/vm/test_*.sh tests/[!v]*/test_*.sh tests/[!v]*/test_*.py; do
	name=${path#tests/}
	[[ -e $path && $name != gpu/* ]] || continue
	wanted "$name" || continue
	if runs_alone "$path"; then alone+=("$name"); else together+=("$name"); fi
done
for t in "$O"/tests/test_*; do [[ -x $t && ! -d $t ]] && wanted "unit/${t##*/}" && run_script "unit/${t##*/}" "$O"; done
((${#together[@]})) && run_in_slots "${together[@]}"
for name in "${alone[@]}"; do run_script "$name" "$O"; done
run_again

# The last result of each test counts.
awk '{ s[$2] = $1; n[$2]++ } END { for (t in s) print s[t], n[t], t }' "$results" | sort -k3 > "$results.last"
while read -r status times name; do
	((status == 0 && times > 1)) && echo "flaky: $name (failed once: log kept at $(log_of "$name").first)"
done < "$results.last"
failed=$(awk '$1 != 0 && $1 != 77 { print $3 }' "$results.last" | xargs)
[[ -n $failed ]] && echo "failed: $failed"
awk '{ n[$1 == 0 ? "p" : $1 == 77 ? "s" : "f"]++ } END { printf "%d passed, %d failed, %d skipped\n", n["p"], n["f"], n["s"] }' "$results.last"
rm -f "$results.last"
[[ -z $failed ]]
