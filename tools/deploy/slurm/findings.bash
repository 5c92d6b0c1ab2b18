# SPDX-License-Identifier: Apache-2.0
# What prolog, epilog and health check share: the daemon's findings, the rules, and draining this node. Nothing here
# fails a job because ranktrace has a problem: what is missing is logged, and the node stays as it is.
# shellcheck shell=bash
RANKTRACE=${RANKTRACE:-$(PATH=$PATH:/usr/local/bin:/usr/bin type -P ranktrace)}
RANKTRACE_FINDINGS=${RANKTRACE_FINDINGS:-/var/lib/ranktrace/findings.jsonl} # key `output` of ranktrace.conf
RANKTRACE_RULES=${RANKTRACE_RULES:-/etc/ranktrace/slurm-rules}
RANKTRACE_RUN=${RANKTRACE_RUN:-/run/ranktrace}
RANKTRACE_STATE=${RANKTRACE_STATE:-/var/lib/ranktrace}
export LC_ALL=C
TEXT_MAX=160 # of a reason; what a process chose may be in it

say() { logger -t ranktrace-slurm -- "$*" 2> /dev/null || echo "ranktrace-slurm: $*" >&2; }

# The health check runs each minute: what lasts is said once a boot.
say_once() { # name, text
	[[ -e $RANKTRACE_RUN/said.$1 ]] && return
	say "$2"
	mkdir -p "$RANKTRACE_RUN" && : > "$RANKTRACE_RUN/said.$1"
}

# Lines of KIND/CLASS/CAUSE, GPU, RANK, JOB, ID, SECONDS, TEXT between tabs: critical findings that are no other's
# consequence. `open`: those that hold now. `job ID`: those of that Slurm job, also such that are over by now: its
# processes are gone.
findings() {
	[[ -r $RANKTRACE_FINDINGS ]] ||
		{ say_once file "$RANKTRACE_FINDINGS cannot be read: is 'output' in ranktrace.conf?"; return; }
	command -v jq > /dev/null || { say_once jq "jq is missing: findings cannot be read"; return; }
	rm -f "$RANKTRACE_RUN"/said.{file,jq}
	jq -rRn --arg what "$1" --arg slurm "${2:-}" --argjson most "$TEXT_MAX" '
		def text: tostring | gsub("[^ -~]"; "?");
		def begun: .since // .time | sub("\\.[0-9]+"; "") | fromdateiso8601;
		reduce (inputs | fromjson? | select(.id)) as $f ({}; .[$f.id] = {
			last: $f, worst: (.[$f.id].worst or $f.severity == "critical")})
		| .[] | select(.worst) | .last | select(.caused_by == null)
		| select(if $what == "open" then .phase != "close" else .slurm_job == $slurm end)
		| [([.kind, .class, .cause] | map(. // "-") | join("/")), (.gpu_uuid // "-"),
		   (if (.ranks // []) == [] then "-" else .ranks[0] end), (.slurm_job // .job // "-"), .id,
		   (if .phase == "close" then (.t_ns - .since_ns) / 1e9 else now - begun end | floor),
		   (.summary | text)[:$most]] | map(text) | join("\t")' "$RANKTRACE_FINDINGS"
}

# What the first rule that fits says: ACTION OWNER SECONDS. Where none does: log.
rule() { # kind/class/cause, job
	local job kind action owner seconds
	if [[ -r $RANKTRACE_RULES ]]; then
		while read -r job kind action owner seconds _; do
			[[ -z $job || $job = \#* ]] && continue
			[[ ($action = drain || $action = log) && $seconds =~ ^[0-9]+$ ]] ||
				{ say "$RANKTRACE_RULES: '$job $kind $action $owner $seconds' is left out: a rule is" \
					"JOB KIND drain|log OWNER SECONDS"; continue; }
			# shellcheck disable=SC2053 # they are patterns
			[[ $2 == $job && ($1 == $kind || ${1%%/*} == $kind) ]] || continue
			echo "$action $owner $seconds"
			return
		done < "$RANKTRACE_RULES"
	fi
	echo "log - 0"
}

node_name() { echo "${SLURMD_NODENAME:-$(hostname -s)}"; }

# Somebody's reason, ours of earlier too, stays.
drained() {
	local state
	state=$(scontrol show node "$(node_name)" 2> /dev/null | grep -o 'State=[^ ]*')
	[[ $state = *DRAIN* || $state = *DOWN* ]]
}

drain() { # reason
	drained && return
	if scontrol update "NodeName=$(node_name)" State=DRAIN "Reason=$1"; then
		say "drained: $1"
	else
		say "could not be drained: $1"
	fi
}

# Acts on each line of findings() by its rule. Returns 1 where one of them asks for the node to be drained.
act() {
	local what gpu rank job id lasted text action owner seconds asked=0 reason
	while IFS=$'\t' read -r what gpu rank job id lasted text; do
		read -r action owner seconds <<< "$(rule "$what" "$job")"
		reason="ranktrace: ${what%%/*} gpu=$gpu rank=$rank inc=$id: $text"
		if [[ $action = drain ]] && ((lasted >= seconds)); then
			[[ $owner = - ]] || reason+=" [$owner]"
			drain "$reason"
			asked=1
		else
			say_once "$id.$action" "$reason (rule: $action after $seconds s)"
		fi
	done
	return $asked
}
