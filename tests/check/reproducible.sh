#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the tree twice, in folders of other names, into outputs of other names, without a compiler cache, and compares
# what is installed or loaded into a kernel. `make reproducible`.
cd "$(dirname "$0")/../.." || exit 2
work=$(mktemp -d "${TMPDIR:-/tmp}/reproducible.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT

tree() { # where, output: a copy, built
	mkdir -p "$1" && git ls-files -z -co --exclude-standard | xargs -0 cp --parents -t "$1" 2> /dev/null
	CCACHE_DISABLE=1 CFLAGS='-O2 -g' make -C "$1" -j"$(nproc)" --no-print-directory O="$2" CC=gcc CLANG=clang \
		build "$2/release/ranktrace" > "$1.log" 2>&1 ||
		{ echo "FAILED: no build in $1:"; tail -n 20 "$1.log"; exit 1; }
}

# Paths below the output: programs, libraries, BPF objects.
products() { (cd "$1" && find ranktrace release/ranktrace lib bpf -type f ! -name '*.d' | sort); }

tree "$work/one" build
tree "$work/some/other-folder" "$work/some/out"
a=$work/one/build b=$work/some/out same=0 differ=0
[[ $(products "$a") == "$(products "$b")" ]] || { echo "FAILED: not the same files"; exit 1; }
while read -r f; do
	if cmp -s "$a/$f" "$b/$f"; then
		same=$((same + 1))
	else
		differ=$((differ + 1))
		echo "differs: $f ($(cmp "$a/$f" "$b/$f" | sed 's/.*differ/differ/'))"
		strings -n 8 "$a/$f" "$b/$f" | grep -F "$work" | sort -u | head -n 3
	fi
done < <(products "$a")
echo "$same files are the same in both, $differ differ"
((differ == 0 && same >= 15))
