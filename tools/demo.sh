#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The demo: 8 simulated ranks with a straggler (rank 3), a D state of 7 s (rank 6) and a missing enter (rank 5), under
# the real tracer. Findings print as they open; the recordings stay in build/demo.
set -u
O=${O:-build}
out=$O/demo
mkdir -p "$out"
rm -f "$out"/*
echo "8 simulated ranks; rank 3 computes 40 % longer from step 10, rank 6 enters D state for 7 s in step 60,"
echo "rank 5 sleeps for 9 s before an operation of step 90. The tracer knows nothing of this."
echo
"$O/ranktrace" record -o "$out/demo.rtr" -o "$out/demo.pftrace" -o "$out/incidents.jsonl" -- \
	"$O/ranktrace" sim job --quiet --ranks 8 --steps 110 --seed 23 --log "$out/ops.jsonl" \
	--fault-log "$out/faults.jsonl" \
	--fault slow:rank=3,step=10,percent=40 --fault dstate:rank=6,step=60,sec=7 --fault hang:rank=5,step=90,sec=9
status=$?
echo
[[ $status == 1 ]] || { echo "demo: expected findings (exit code 1), got $status" >&2; exit 1; }
if command -v python3 > /dev/null; then
	"$O/ranktrace" replay --ops --quiet "$out/demo.rtr" > "$out/ops_seen.jsonl"
	python3 -B tools/timeline_svg.py "$out/ops_seen.jsonl" "$out/incidents.jsonl" "$out/demo.svg" &&
		echo "picture:   $out/demo.svg"
fi
echo "timeline:  $out/demo.pftrace (open it at ui.perfetto.dev)"
echo "findings:  $out/incidents.jsonl"
echo "recording: $out/demo.rtr ($O/ranktrace replay $out/demo.rtr)"
