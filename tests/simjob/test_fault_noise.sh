#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What makes steps uneven and is no rank's fault: collector pauses, imbalance, slow storage; each as large, and as
# spread over the ranks, as it says.
. "$(dirname "$0")/job.bash"

# Fault log lines as pairs: "rank step milliseconds" a line.
lasted() {
	jq -rs '[.[] | select(.phase == "begin")] as $b | .[] | select(.phase == "end") | . as $e |
		($b[] | select(.rank == $e.rank and .step == $e.step)) |
		"\(.rank) \(.step) \(($e.t_ns - .t_ns) / 1000000 | floor)"' "$dir/faults"
}
run() {
	rm -f "$dir/faults"
	: > "$dir/log"
	job_start "$@"
	job_wait || fail "$*: exited with $?"
}

run --ranks 4 --steps 40 --step-ms 20 --fault gc:rate=0.2,step=1,until=35
lasted | awk '{ nr++; ranks[$1]; if ($3 < 20 || $3 > 5000 || $2 < 1 || $2 >= 35) bad = 1; if ($3 > 85) long++ }
	END { print nr, "pauses,", length(ranks), "ranks"
	exit bad || nr < 8 || nr > 60 || length(ranks) < 3 || long < 1 }' ||
	fail "gc: $(lasted | xargs)"
(($(grep -c '^simjob: fault gc' "$dir/err") <= 8)) || fail "gc talks too much"

# The last stage's work doubles: the pipeline goes at its pace.
stages() {
	run --ranks 2 --layout pp=2 --steps 24 --step-ms 30 --fault imbalance:what=stage,percent=100,step=10
	[[ $(fault_value begin step) == 10 ]] || fail "imbalance begins elsewhere"
	python3 -B - "$dir/log" << 'PY'
import json, statistics, sys
ops = list(map(json.loads, open(sys.argv[1])))
ends = [op["t_ns"] for op in ops if op["rank"] == 0 and op["count"] == 2]
took = [(b - a) / 1e6 for a, b in zip(ends, ends[1:])]
before, after = statistics.median(took[:9]), statistics.median(took[10:])
print(f"even {before:.1f} ms, uneven {after:.1f} ms")
sys.exit(not after > 1.4 * before)
PY
}
thrice stages || fail "imbalance of stages: not what it says"

# Each replica of the model is the last to reduce its gradients in many steps, its two ranks together.
sequences() {
	run --ranks 4 --layout tp=2,dp=2 --steps 40 --step-ms 40 --fault imbalance:what=sequence,percent=100
	python3 -B - "$dir/log" << 'PY'
import collections, json, sys
ops = list(map(json.loads, open(sys.argv[1])))
dp = {op["comm"] for op in ops if op["op"] == "Broadcast"}
arrived, last = collections.defaultdict(dict), collections.Counter()
for op in ops:
    # 4 broadcasts at the start, then 4 buckets a step
    if op["comm"] in dp and op["seq"] >= 4 and op["seq"] % 4 == 0:
        arrived[op["seq"]][op["rank"]] = op["t_ns"]
for seq, times in arrived.items():
    if abs(times[0] - times[2]) > 3e6:
        last[int(times[2] > times[0])] += 1
print(f"last by 3 ms: {dict(last)}")
sys.exit(not (last[0] >= 5 and last[1] >= 5))
PY
}
thrice sequences || fail "imbalance of sequences: not what it says"

[[ $EUID == 0 ]] || skip "slow storage needs root for a frozen file system"
rm -f "$dir/faults"
: > "$dir/log"
job_start --ranks 4 --steps 24 --step-ms 20 --fault io:rate=1,ms=300,step=2,until=20
wait_for 20 fault_began || fail "io does not begin"
grep -q 'by vfork' "$dir/err" && skip "no frozen file system here: $(grep vfork "$dir/err" | head -n 1)"
pid=$(fault_value begin pid)
[[ $(cat "/proc/$pid/comm") == pt_data_worker ]] || fail "io: pid $pid is not a dataloader"
seen=0
while ((seen < 3)) && kill -0 "$launcher" 2> /dev/null; do
	pid=$(sed -n 's/.*"phase":"begin".*"pid":\([0-9]*\).*/\1/p; s/.*"pid":\([0-9]*\).*"phase":"begin".*/\1/p' \
		"$dir/faults" | tail -n 1)
	if task_is "$pid" D; then seen=$((seen + 1)); fi
	sleep 0.02
done
((seen >= 3)) || fail "io: seen in D state $seen times only"
job_wait || fail "io: exited with $?"
lasted | sort -nk 2 |
	awk '{ nr++; ranks[$1]; if ($3 < 200 || $3 > 5000 || (nr > 1 && $1 == before)) bad = 1; before = $1 }
	END { print nr, "late batches,", length(ranks), "ranks"; exit bad || nr != 9 || length(ranks) != 4 }' ||
		fail "io: $(lasted | xargs)"
