#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs every test that needs no GPU and counts. A test is a file found by listing: unit programs, then test_* scripts.
# Exit status of a test: 0 passed, 77 skipped (its last line says why), else failed. ONLY=pattern runs a part.
cd "$(dirname "$0")/.." || exit 2
O=${O:-build}
export O LONG=${LONG:-}
log_dir=$O/tests/log
mkdir -p "$log_dir"
passed=0 failed=0 skipped=0 broken=()

run_one() { # name, command...
	local name=$1 log begin=$SECONDS status
	shift
	[[ -n ${ONLY:-} && $name != $ONLY ]] && return
	log=$log_dir/${name//\//_}.log
	timeout --kill-after=10 "${TEST_TIMEOUT:-900}" "$@" > "$log" 2>&1 < /dev/null
	status=$?
	case $status in
	0) passed=$((passed + 1)); word=ok ;;
	77) skipped=$((skipped + 1)); word="skip: $(tail -n 1 "$log")" ;;
	*) failed=$((failed + 1)); broken+=("$name"); word="FAILED ($status), log: $log" ;;
	esac
	printf '%-44s %4d s  %s\n' "$name" $((SECONDS - begin)) "$word"
	if [[ $word == FAILED* ]]; then tail -n 40 "$log" | sed 's/^/    /'; fi
}

for t in "$O"/tests/test_*; do [[ -x $t && ! -d $t ]] && run_one "unit/${t##*/}" "$t"; done
for t in tests/*/test_*.sh tests/*/test_*.py; do
	[[ -e $t ]] || continue
	case $t in
	tests/gpu/*) continue ;;
	*.sh) run_one "${t#tests/}" bash "$t" ;;
	*.py) run_one "${t#tests/}" python3 -B "$t" ;;
	esac
done
((failed)) && printf 'failed: %s\n' "${broken[*]}"
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
