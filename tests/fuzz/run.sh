#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the fuzz targets, SECONDS_EACH (2), AT_ONCE (1) of them at a time: new inputs in $O/fuzz/corpus, which stay for
# the next run; what crashes a target in $O/fuzz/crashes, to be run again by giving it to the target, and to be kept in
# found/ as TARGET-WHY once it is mended. FUZZ_SEED=n: the same inputs again. FUZZ_FROM=DIR: targets of another build.
# ONLY='name ...'. The last two numbers of a line are what the corpus reaches: edges, and edges with their counts.
cd "$(dirname "$0")/../.." || exit 2
O=${O:-build}
seconds=${SECONDS_EACH:-2} seed=${FUZZ_SEED:-0} at_once=${AT_ONCE:-1}
failures=$(mktemp)
trap 'rm -f "$failures"' EXIT
. tests/fuzz/target.sh
. tests/fuzz/seed_files.sh

fuzz() { # target, name
	local corpus=$O/fuzz/corpus/$2 made=$O/fuzz/seeds/$2 log=$O/fuzz/$2.log status
	mkdir -p "$corpus" "$O/fuzz/crashes"
	((seed)) && corpus=$(mktemp -d "$O/fuzz/corpus/$2.XXXXXX")
	first_inputs "$made" "$2"
	target_run "$1" "$O/fuzz/crashes/$2-" -max_total_time="$seconds" -seed="$seed" "$corpus" "$made" \
		> "$log" 2>&1 < /dev/null
	status=$?
	((seed)) && rm -rf "$corpus"
	printf '%-16s %s inputs in %s s, coverage %s\n' "$2" "$(log_number "$log" 'executed_units: *[0-9]+')" \
		"$seconds" "$(log_number "$log" 'cov: [0-9]+'), $(log_number "$log" ' ft: [0-9]+')"
	((status == 0)) && return
	echo "$2" >> "$failures"
	echo "FAILED: $2, log: $log"
	grep -vE '^#|^INFO' "$log" | head -n 40 | sed 's/^/    /'
}

read -ra only <<< "${ONLY:-}"
for target in "${FUZZ_FROM:-$O/fuzz}"/fuzz_*; do
	name=${target##*/fuzz_}
	[[ -x $target && ( -z ${ONLY:-} || " ${only[*]} " == *" $name "* ) ]] || continue
	fuzz "$target" "$name" &
	while (($(jobs -rp | wc -l) >= at_once)); do wait -n; done
done
wait
[[ ! -s $failures ]]
