#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Static analysis of user/, tracers/ and tools/ (C of the host's side): gcc -fanalyzer, cppcheck, clang-tidy
# (.clang-tidy). A finding is mended; what is none is marked in its line, or the one before: "lint: WHY" in a comment.
# FILES='a.c b.h' checks these alone (of a header: who includes it), FILES=changed what differs from HEAD.
# TOOLS='gcc cppcheck tidy': some of them. Exit status 1: findings.
cd "$(dirname "$0")/.." || exit 2
O=${O:-build} JOBS=${JOBS:-$(nproc)}
export FLAGS="-std=gnu11 -D_GNU_SOURCE -Iuser -I. -Ischemas -I$O/gen"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

sources() { find user tracers tools -name '*.c' ! -name '*.bpf.c' | sort; }

# With a header, what includes it: by its path in the tree or below user/.
wanted() {
	local f path
	for f; do
		case $f in
		*.bpf.[ch]) ;;
		*.c) [[ $f =~ ^(user|tracers|tools)/ && -e $f ]] && echo "$f" ;;
		*.h) path=${f#user/} && sources | xargs grep -lF "\"${path#schemas/}\"" ;;
		esac
	done | sort -u
}

# uthash's own hash function has so many branches that gcc 12 takes hours of a file, and sees no more of ours.
FLAGS+=" -DHASH_FUNCTION(key,n,hash)=((hash)=(unsigned)(n)) -DO=\"$O\""
gcc_one() {
	# shellcheck disable=SC2086 # words
	timeout 600 gcc $FLAGS -O2 -Wall -Wextra -fanalyzer -fdiagnostics-plain-output -fanalyzer-verbosity=0 -c "$1" \
		-o /dev/null 2>&1
	(($? == 124)) && echo "$1:1: error: gcc took more than 600 s"
}
# shellcheck disable=SC2086 # words
tidy_one() {
	timeout 600 clang-tidy-14 --quiet "$1" -- $FLAGS 2> /dev/null | sed "s#^$PWD/##"
	((PIPESTATUS[0] == 124)) && echo "$1:1: error: clang-tidy took more than 600 s"
}
export -f gcc_one tidy_one

# "leak of <unknown>": gcc 12 has lost the pointer that it speaks of, for it was put into a list or a table (60 places,
# none a leak: the leak sanitizer and valgrind judge those). perfetto.h has a HASH_FUNCTION of its own.
run_gcc() {
	xargs -P "$JOBS" -n 1 bash -c 'gcc_one "$1"' bash | grep -vE 'leak of ‘<unknown>’|"HASH_FUNCTION" redef'
}
run_tidy() { xargs -P "$JOBS" -n 1 bash -c 'tidy_one "$1"' bash; }
# What it does not read are system headers: their macros are in cppcheck.cfg. Its library "posix" is left out: it takes
# MAP_ANONYMOUS with -1, readdir() and a descriptor that is returned for errors.
run_cppcheck() {
	cppcheck --quiet -j "$JOBS" --enable=warning,portability --std=c11 \
		--library=scripts/cppcheck.cfg -D_GNU_SOURCE -D__x86_64__ -D__linux__ '-DO="build"' -Iuser -I. \
		-Ischemas --template='{file}:{line}: {severity}: {message} [{id}]' --file-list=- 2>&1
}

# Findings that no mark excuses. clang's analyzer believes that what HASH_DEL() leaves is what was freed before it.
unmarked() {
	local file line rest
	grep -E '^[a-z][^: ]*:[0-9]+:([0-9]+:)? (error|warning|portability):' | sort -u |
		while IFS=: read -r file line rest; do
		[[ $rest == *'memory after it is freed'* ]] && sed -n "${line}p" "$file" | grep -q 'HASH_' && continue
		sed -n "$((line > 1 ? line - 1 : 1)),${line}p" "$file" | grep -q '/\* lint: [a-z].* \*/' ||
			echo "$file:$line:$rest"
		done
}

case ${FILES:-} in
'') sources > "$out/files" ;;
changed) wanted $(git diff --name-only HEAD; git ls-files --others --exclude-standard) > "$out/files" ;;
*) wanted $FILES > "$out/files" ;;
esac
[[ -s $out/files ]] || { echo "lint: no C file of user/, tracers/ or tools/ among them"; exit 0; }
rc=0
for tool in ${TOOLS:-gcc cppcheck tidy}; do
	begin=$SECONDS
	"run_$tool" < "$out/files" | unmarked > "$out/$tool"
	n=$(wc -l < "$out/$tool")
	printf 'lint: %s: %d files, %d findings, %d s\n' "$tool" "$(wc -l < "$out/files")" "$n" $((SECONDS - begin))
	sed 's/^/  /' "$out/$tool"
	((n)) && rc=1
done
exit $rc
