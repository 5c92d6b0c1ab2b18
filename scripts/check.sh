#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The house rules, executable. Each rule is a function that prints its violations; tests/check tests each with a
# planted one. TREE=dir checks another tree.
root=$(cd "$(dirname "$0")/.." && pwd)
cd "${TREE:-$root}" || exit 2
export LC_ALL=C

sources() { find user tracers bpf schemas tools tests vmlinux -name '*.[ch]' ! -path '*/build/*' 2>/dev/null | sort; }

# Who includes whom, circles, rooms: scripts/check_includes.py has the table.
rule_includes() { TREE=. python3 -B "$root/scripts/check_includes.py"; }

# Lines and links of the docs, files that the architecture names: scripts/check_docs.py.
rule_docs() { python3 -B "$root/scripts/check_docs.py"; }

# A tracer never includes another tracer.
rule_tracers_apart() {
	local dir other
	for dir in tracers/*/; do
		for other in tracers/*/; do
			[[ $dir == "$other" ]] ||
				grep -nHE "\"(tracers/)?$(basename "$other")[/.]" "$dir"*.[ch] 2>/dev/null
		done
	done | grep include | grep -v '\.skel\.h'
}

# Only user/attach and generated skeletons touch libbpf.
rule_libbpf() {
	grep -lE '#include <bpf/(libbpf|bpf)\.h>' $(find user tracers -name '*.[ch]' ! -name '*.bpf.*') 2>/dev/null |
		grep -v '^user/attach/' | sed 's/$/: only user\/attach touches libbpf/'
}

# Kernels before 5.15 have no attach cookies, and from 6.13 on a uprobe program must refuse a private stack:
# bpf/cookie.bpf.h does both.
rule_cookies() {
	grep -nE 'bpf_get_attach_cookie' $(find tracers -name '*.bpf.[ch]') /dev/null |
		sed 's/$/   <- use probe_cookie() of bpf\/cookie.bpf.h/'
}

# The model and the detectors are pure: no I/O, no clock, no environment.
rule_pure() {
	local calls='clock_gettime|getenv|open|fopen|printf|time'

	grep -nE "#include <(stdio|fcntl|unistd|time|sys/.*|pthread|signal)\.h>|\b($calls)\(" \
		$(find user/model user/detect -name '*.[ch]') /dev/null | sed 's/$/   <- not pure/'
}

# Layout is clang-format's, by the version that Debian 12 has (others disagree with it).
rule_format() {
	local files
	mapfile -t files < <(sources | grep -v '^vmlinux/')
	if [[ $(clang-format-14 --version 2>&1) == *' 14.'* ]]; then
		printf '%s\0' "${files[@]}" | xargs -0 -n 60 -P "$(nproc)" \
			clang-format-14 --style="file:$root/.clang-format" --dry-run 2>&1 | grep 'warning:' |
			sed 's/: warning:.*/: not as clang-format has it/' | cut -d: -f1,4 | sort | uniq -c
	fi
}

# 120 columns; no word that the glossary replaces: scripts/check_text.py.
rule_lines() { python3 -B "$root/scripts/check_text.py" lines; }
rule_words() { python3 -B "$root/scripts/check_text.py" words; }

rule_sizes() {
	sources | xargs -r awk 'function most(f) { return f ~ /\.h$/ ? 400 : f ~ /^user\/detect\// ? 450 : 600 }
		{ n[FILENAME] = FNR }
		END { for (f in n) if (n[f] > most(f)) print f ": " n[f] " lines, more than " most(f) }'
	# functions: from a line "{" in column 0 to "}" in column 0
	sources | grep '\.c$' |
		xargs -r awk '/^{$/ { begin = FNR } /^}/ && begin { if (FNR - begin > 62)
			print FILENAME ":" begin ": function of " FNR - begin " lines, more than 60"; begin = 0 }'
}

rule_names() {
	sources | grep -E '/(utils?|helpers?|common|misc|manager)\.[ch]$' |
		sed 's/$/: says nothing about what is in it/'
	sources | xargs -r grep -nE '^typedef struct|^} [a-z_]+_t;' | grep -vE '^vmlinux/|_abi\.h:' |
		sed 's/$/   <- typedef of a struct/'
}

rule_licences() {
	{ sources; find scripts tools tests .ci -name '*.sh' -o -name '*.py' -o -path '.ci/run' | sort; } |
		xargs -r awk 'FNR <= 4 && /SPDX-License-Identifier/ { has[FILENAME] } FNR == 4 { nextfile }
			END { for (i = 1; i < ARGC; i++) if (!(ARGV[i] in has)) print ARGV[i] ": no SPDX line" }'
	grep -LE 'GPL-2.0-only OR BSD-2-Clause' $(find bpf tracers -name '*.bpf.[ch]') /dev/null | grep -v /dev/null |
		sed 's/$/: kernel side is GPL-2.0-only OR BSD-2-Clause/'
}

# Every line of the tables has its file, and the other way round.
rule_tables() {
	local id dir f
	for id in $(grep -oE '^SOURCE\([a-z_0-9]+' tracers/sources.def | cut -d'(' -f2); do
		f=$(grep -lrE "struct record_kind source_records_$id\[\] = " tracers user/pipeline)
		[[ $f == *_records.c ]] || echo "sources: $id: no X_records.c with source_records_$id"
		grep -qrE "struct source_live source_$id = " tracers user/pipeline || echo "sources: $id: no source_$id"
		[[ $f != tracers/* || -e $(dirname "$f")/README.md ]] || echo "sources: $id: no README.md in its folder"
		grep -qrE "\bsource_(records_)?$id\b|(source|sampler|tracer)[: ]+'?$id\b" tests \
			--include='test_*' --exclude-dir=check || echo "tests: source $id has no test"
	done
	for id in $(grep -ohrE 'struct record_kind source_records_[a-z_0-9]+' tracers user |
		sed 's/.*source_records_//'); do
		grep -q "^SOURCE($id," tracers/sources.def || echo "tracers/sources.def: no line of $id"
	done
	for id in $(grep -oE '^DETECTOR\([a-z_0-9]+' user/detect/detectors.def | cut -d'(' -f2); do
		grep -qrE "struct detector detector_$id = " user/detect || echo "user/detect: no detector_$id"
		grep -qrE "\\b$id\\b" tests/unit || echo "tests/unit: detector $id has no test"
	done
	for id in $(grep -oE '^FAULT\([a-z0-9_]+, "[a-z0-9-]+' tools/simjob/faults/faults.def | cut -d'"' -f2); do
		grep -qrE "\b$id\b" tests --include='*.py' --include='*.sh' --exclude-dir=check ||
			echo "tests: fault $id has no test"
	done
	for id in $(grep -oE '^SINK\([a-z_]+' user/sink/sinks.def | cut -d'(' -f2); do
		grep -qrE "struct sink_class sink_$id = " user/sink || echo "user/sink: no sink_$id"
		grep -qrE "sink_$id|\"$id\"" tests/unit || echo "tests/unit: sink $id has no test"
	done
}

# The schema of findings has what the tables of the code have: scripts/incident_schema.py writes it.
rule_schema() { TREE=. python3 -B "$root/scripts/incident_schema.py" --check; }

# The table of metrics: names, units, labels; docs/operate.md and dashboards have it as it is.
rule_metrics() {
	TREE=. python3 -B "$root/scripts/metrics.py" --check
	python3 -B dashboards/panels.py --check
}

# Docs cite docs/, never what lies outside the tree; no package registry is named.
rule_citations() {
	grep -rnE '\.\./shared|/work/|deb\.debian\.org|registry\.npmjs|pypi\.org|snapshot\.debian' \
		--include='*' . 2>/dev/null \
		--exclude-dir=.git --exclude=.git --exclude-dir=build --exclude=check.sh |
		sed 's/$/   <- not for a commit/'
}

rc=0
rules='format words includes lines tracers_apart libbpf cookies pure sizes names licences tables schema metrics'
rules+=' docs citations'
said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT
# As many at once as there are processors; the longest first.
for rule in $rules; do
	[[ -n ${RULE:-} && $rule != "$RULE" ]] && continue
	(($(jobs -pr | wc -l) < $(nproc))) || wait -n
	rule_"$rule" > "$said/$rule" &
done
wait
for rule in $rules; do
	if [[ -s $said/$rule ]]; then
		printf 'check: %s\n' "$rule"
		sed 's/^/  /' "$said/$rule"
		rc=1
	fi
done
((rc)) || echo "check: all rules hold"
exit $rc
