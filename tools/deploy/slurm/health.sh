#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# HealthCheckProgram of slurm.conf (HealthCheckInterval=60, HealthCheckNodeState=ANY): drains this node for a finding
# that holds, by the rules; on a node without a job, once in RANKTRACE_STRESS_EVERY seconds (a day; 0: never), tests its
# devices. slurmd ends a health check after 60 s.
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tools/deploy/slurm/findings.bash
. "$here/findings.bash"
STRESS_EVERY=${RANKTRACE_STRESS_EVERY:-86400}
STRESS_MOST_S=50 # what is left of slurmd's minute
stamp=$RANKTRACE_STATE/stress.passed

# A node with a job has a step daemon.
has_job() { pgrep -x slurmstepd > /dev/null; }

tested_lately() {
	[[ -e $stamp ]] && (($(date +%s) - $(stat -c %Y "$stamp") < STRESS_EVERY))
}

# A device that failed: GPU and what is wrong, of the first fault; else the last line.
verdict() { # output
	local line=
	command -v jq > /dev/null &&
		line=$(jq -rRn 'first(inputs | fromjson? | select(.type == "fault")) |
			"\(.uuid // "-")\t\(.text // .kind)"' "$1" 2> /dev/null)
	[[ -n $line ]] || line="-"$'\t'$(grep . "$1" | tail -n 1)
	tr -cd '\t -~' <<< "$line"
}

# The prolog waits for the lock, and ends the process of the file.
stress() {
	local out status gpu text action owner
	out=$(mktemp) || return
	timeout --kill-after=5 "$STRESS_MOST_S" "$RANKTRACE" stress all --quick --json > "$out" 2>&1 &
	echo $! > "$RANKTRACE_RUN/stress.pid"
	wait $!
	status=$?
	rm -f "$RANKTRACE_RUN/stress.pid"
	IFS=$'\t' read -r gpu text <<< "$(verdict "$out")"
	rm -f "$out"
	case $status in
	0) touch "$stamp" ;;
	1)
		read -r action owner _ <<< "$(rule stress -)"
		text="ranktrace: stress gpu=$gpu rank=- inc=-: ${text:0:TEXT_MAX}"
		if [[ $action = drain ]]; then
			[[ $owner = - ]] || text+=" [$owner]"
			drain "$text"
		else
			say "$text (rule: log)"
		fi
		;;
	3) say "devices not tested, which says nothing about them: $text" ;;
	124 | 130 | 137) say "devices not tested: the test was ended (a job came, or $STRESS_MOST_S s were over)" ;;
	*) say "devices not tested: ranktrace stress all --quick failed ($status): $text" ;;
	esac
}

findings open | act
((STRESS_EVERY)) || exit 0
has_job && exit 0
tested_lately && exit 0
mkdir -p "$RANKTRACE_RUN" "$RANKTRACE_STATE"
exec 9> "$RANKTRACE_RUN/stress.lock"
flock -n 9 || exit 0
stress 9>&9
exit 0
