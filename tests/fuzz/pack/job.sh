#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# job.sh NAME I SECONDS OUTDIR: one job of run.sh. A target that crashes is started anew for the time that is left, and
# not more than CRASHES_MAX times: the same fault would be found again and again.
CRASHES_MAX=20
here=$(cd "$(dirname "$0")" && pwd) || exit 2
name=$1 seconds=$3 out=$4 job=$1.$2 crashed=0 status=0
. "$here/target.sh"
corpus=$out/corpus/$job log=$out/logs/$job.log
mkdir -p "$corpus"
cp "$here/corpus/$name"/* "$corpus/" 2> /dev/null
end=$((SECONDS + seconds))
while ((SECONDS < end && crashed < CRASHES_MAX)); do
	target_run "$out/bin/fuzz_$name" "$out/crashes/$job-" -max_total_time=$((end - SECONDS)) "$corpus" \
		>> "$log" 2>&1
	now=$?
	((now)) && status=$now && ((++crashed))
done
echo "$status $crashed" > "$out/logs/$job.exit"
