#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --life: every phase comes and the job goes on after it; the schedule follows from the seed; names are checked.
. "$(dirname "$0")/job.bash"

# Each phase by itself, so short that only its kind counts. Steps of tensor-parallel ranks cost five times as much.
layout=(--ranks 2 --layout dp=2)
[[ -z ${LONG:-} ]] || layout=(--ranks 4 --layout tp=2,dp=2)
for phase in elastic abort evaluation checkpoint epoch recompile long_step accumulation collection experts; do
	rm -f "$dir/faults"
	job_start "${layout[@]}" --steps 650 --step-ms 2 --life=$phase --life-scale 0.002
	job_wait || fail "life=$phase: exited with $?"
	[[ $(jq -r .what "$dir/faults" | sort -u) == "$phase" ]] ||
		fail "life=$phase: $(jq -r .what "$dir/faults" | sort | uniq -c)"
done

plan() { # what begins at which step
	"$simjob" --seed "$1" --fault-log "$dir/faults" --ranks 2 --steps 300 --step-ms 1 \
		--life --life-scale 0.001 2> "$dir/err" || fail "exited with $?"
	jq -r 'select(.phase == "begin") | "\(.step) \(.what) \(.sec)"' "$dir/faults" | sort -n | uniq
}
[[ $(plan 7) == "$(plan 7)" ]] || fail "two lives of one seed differ"
[[ $(plan 7) != "$(plan 8)" ]] || fail "lives of two seeds are one"

usage() { # expected text, options
	"$simjob" --ranks 2 --steps 1 "${@:2}" 2> "$dir/err" && fail "accepts ${*:2}"
	grep -qF -- "$1" "$dir/err" || fail "${*:2}: $(cat "$dir/err")"
}
usage "no such phase" --life=checkpoint,sleep
usage "leave --graph out" --life --graph step
usage "not a number" --life --life-scale 0
