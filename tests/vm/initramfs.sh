#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Packs an initramfs: busybox, modules with what they need, and /init. initramfs.sh KERNEL_DIR BUSYBOX TO INIT MODULE...
# Also used for arm64, with that machine's busybox: nothing of it is run here.
set -euo pipefail
kernel=$1 busybox=$2 to=$3 init=$4
shift 4
tree=$(mktemp -d "${TMPDIR:-/tmp}/initramfs.XXXXXX")
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{bin,modules,proc,sys,dev,root}
[[ -z ${EXTRA:-} ]] || cp -a "$EXTRA/." "$tree/" # more for its root
cp "$busybox" "$tree/bin/busybox"
ln -s busybox "$tree/bin/sh"
cp "$init" "$tree/init"
chmod +x "$tree/init"
n=0
for m in "$@"; do
	while read -r word path _; do
		[[ $word = insmod ]] || continue
		name=$(basename "$path")
		grep -qsx "${name%%.ko*}" "$tree/modules/.have" && continue
		echo "${name%%.ko*}" >> "$tree/modules/.have"
		n=$((n + 1))
		to_name=$(printf '%s/modules/%03d-%s.ko' "$tree" "$n" "${name%%.ko*}")
		case $path in
		*.xz) xz -dc "$path" > "$to_name" ;;
		*.zst) zstd -dcq "$path" > "$to_name" ;;
		*) cp "$path" "$to_name" ;;
		esac
	done < <(modprobe -d "$kernel" -S "$(< "$kernel/release")" --show-depends "$m")
done
(cd "$tree" && find . | "$(command -v busybox)" cpio -o -H newc 2> /dev/null) > "$to"
