#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The house rules, executable. Each rule is a function that prints its violations; tests/check tests each with a
# planted one. TREE=dir checks another tree.
cd "${TREE:-$(dirname "$0")/..}" || exit 2
export LC_ALL=C

sources() { find user tracers bpf schemas tools tests vmlinux -name '*.[ch]' ! -path '*/build/*' 2>/dev/null | sort; }
includes() { grep -ohE '^#include "[^"]+"' "$1" | cut -d'"' -f2; }

# layer FILES -- ALLOWED-PREFIX...: quoted includes of FILES must match one of the extended regexes
layer() {
	local name=$1 allowed=$2 file inc
	while read -r file; do
		while read -r inc; do
			[[ -n $inc && ! -e ${file%/*}/$inc ]] || continue # a neighbour is always allowed
			[[ $inc =~ ^($allowed)$ ]] || echo "$file: includes \"$inc\": $name may include only $allowed"
		done < <(includes "$file")
	done
}

rule_layers() {
	find schemas -name '*.h' | layer schemas 'wire\.h|schemas/[a-z_]+\.h'
	find bpf tracers -name '*.bpf.[ch]' | layer 'kernel side' 'vmlinux\.h|schemas/.*|bpf/.*|user/kernel\.def|tracers/[a-z]+/[a-z]+\.h'
	find tracers -name '*.c' ! -name '*.bpf.c' | layer 'a tracer' "tracer\.h|event\.h|base/.*|schemas/.*|target/.*|uthash\.h|[a-z]+\.skel\.h"
	find user/detect -name '*.[ch]' | layer 'a detector' 'event\.h|finding\.h|base/.*|model/.*|detect/.*|detect\.h|detectors\.def|detect/xids\.def|uthash\.h|utarray\.h'
	find user/model -name '*.[ch]' | layer 'the model' 'event\.h|base/.*|model/.*|schemas/retold\.h|uthash\.h|utlist\.h'
	find user/sink -name '*.[ch]' | layer 'a sink' "event\.h|finding\.h|base/.*|model/.*|schemas/.*|sink/.*|sinks\.def|uthash\.h"
	find user/sample -name '*.[ch]' | layer 'a sampler' "base/.*|schemas/.*|target/.*|sample/.*|tracers/sched/sched\.h|uthash\.h"
	find user/base user/target -name '*.[ch]' | layer 'base and target' "base/.*|target/.*|schemas/.*|uthash\.h"
}

# A tracer never includes another tracer.
rule_tracers_apart() {
	local dir other
	for dir in tracers/*/; do
		for other in tracers/*/; do
			[[ $dir == "$other" ]] || grep -nHE "\"(tracers/)?$(basename "$other")[/.]" "$dir"*.[ch] 2>/dev/null
		done
	done | grep include
}

# Only loader.c, attach.c, ring.c and generated skeletons touch libbpf.
rule_libbpf() {
	grep -lE '#include <bpf/(libbpf|bpf)\.h>' $(find user tracers -name '*.[ch]' ! -name '*.bpf.*') 2>/dev/null |
		grep -vE '^user/(loader|loader_targets|attach|attach_cost|attach_place|detach|kernel|ring)\.c$|^user/loader_internal\.h$' | sed 's/$/: only the loader and the ring touch libbpf/'
}

# Kernels before 5.15 have no attach cookies, and from 6.13 on a uprobe program must refuse a private stack: bpf/cookie.bpf.h does both.
rule_cookies() {
	grep -nE 'bpf_get_attach_cookie' $(find tracers -name '*.bpf.[ch]') /dev/null | sed 's/$/   <- use probe_cookie() of bpf\/cookie.bpf.h/'
}

# The model and the detectors are pure: no I/O, no clock, no environment.
rule_pure() {
	grep -nE '#include <(stdio|fcntl|unistd|time|sys/.*|pthread|signal)\.h>|\b(clock_gettime|getenv|open|fopen|printf|time)\(' \
		$(find user/model user/detect -name '*.[ch]') /dev/null | sed 's/$/   <- not pure/'
}

rule_sizes() {
	local f n max
	while read -r f; do
		n=$(wc -l < "$f")
		case $f in
		*.h) max=300 ;;
		user/detect/*.c) max=400 ;;
		*) max=600 ;;
		esac
		((n > max)) && echo "$f: $n lines, more than $max"
	done < <(sources)
	# functions: from a line "{" in column 0 to "}" in column 0
	sources | grep '\.c$' | xargs -r awk '/^{$/ { begin = FNR } /^}/ && begin { if (FNR - begin > 62) print FILENAME ":" begin ": function of " FNR - begin " lines, more than 60"; begin = 0 }'
}

rule_names() {
	sources | grep -E '/(utils?|helpers?|common|misc|manager)\.[ch]$' | sed 's/$/: says nothing about what is in it/'
	sources | xargs -r grep -nE '^typedef struct|^} [a-z_]+_t;' | grep -vE '^vmlinux/|_abi\.h:' | sed 's/$/   <- typedef of a struct/'
}

rule_licences() {
	local f
	while read -r f; do
		head -n 4 "$f" | grep -q 'SPDX-License-Identifier' || echo "$f: no SPDX line"
	done < <(sources; find scripts tools tests .ci -name '*.sh' -o -name '*.py' -o -path '.ci/run' | sort)
	grep -LE 'GPL-2.0-only OR BSD-2-Clause' $(find bpf tracers -name '*.bpf.[ch]') /dev/null | grep -v /dev/null | sed 's/$/: kernel side is GPL-2.0-only OR BSD-2-Clause/'
}

# Every line of the three tables has its file, and the other way round.
rule_tables() {
	local id
	for id in $(grep -oE '^TRACER\([a-z_]+' tracers/tracers.def | cut -d'(' -f2); do
		for f in "$id.h" "$id.c" "$id.bpf.c" README.md; do
			[[ -e tracers/$id/$f ]] || echo "tracers/$id/$f: missing"
		done
	done
	for id in $(grep -oE '^DETECTOR\([a-z_0-9]+' user/detect/detectors.def | cut -d'(' -f2); do
		grep -qrE "struct detector detector_$id = " user/detect || echo "user/detect: no detector_$id"
		grep -qrE "\\b$id\\b" tests/unit || echo "tests/unit: detector $id has no test"
	done
	for id in $(grep -oE '^SAMPLER\([a-z_0-9]+' user/sample/samplers.def | cut -d'(' -f2); do
		grep -qrE "struct sampler ${id}_sampler = " user/sample || echo "user/sample: no ${id}_sampler"
		grep -qrE "${id}_sampler|sampler[: ]+'?${id}" tests/unit tests/e2e || echo "tests: sampler $id has no test"
	done
	for id in $(grep -oE '^SINK\([a-z_]+' user/sink/sinks.def | cut -d'(' -f2); do
		grep -qrE "struct sink_class sink_$id = " user/sink || echo "user/sink: no sink_$id"
		grep -qrE "sink_$id|\"$id\"" tests/unit || echo "tests/unit: sink $id has no test"
	done
}

# Docs cite docs/, never what lies outside the tree; no package registry is named.
rule_citations() {
	grep -rnE '\.\./shared|/work/|deb\.debian\.org|registry\.npmjs|pypi\.org|snapshot\.debian' --include='*' . 2>/dev/null \
		--exclude-dir=.git --exclude=.git --exclude-dir=build --exclude=check.sh | sed 's/$/   <- not for a commit/'
}

rc=0
for rule in layers tracers_apart libbpf cookies pure sizes names licences tables citations; do
	[[ -n ${RULE:-} && $rule != "$RULE" ]] && continue
	out=$(rule_$rule)
	if [[ -n $out ]]; then
		printf 'check: %s\n%s\n' "$rule" "$(sed 's/^/  /' <<< "$out")"
		rc=1
	fi
done
((rc)) || echo "check: all rules hold"
exit $rc
