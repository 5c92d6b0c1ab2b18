#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ranktrace on arm64: Debian's 6.1 kernel under qemu-system-aarch64 with a root of its own (initramfs: the arm64 build,
# the libraries it links, busybox). Every program loads, and a known workload is counted exactly, ncclCommInitRank's id
# by value included.
set -euo pipefail
cd "$(dirname "$0")/../.."
O=${O:-build}
command -v qemu-system-aarch64 > /dev/null || { echo "qemu-system-aarch64 is missing (scripts/deps.sh vm)"; exit 77; }
[[ -x $O/arm64/ranktrace ]] || { echo "no arm64 build: run 'make arm64'" >&2; exit 1; }
kernel=$(tests/vm/kernel.sh 6.1 arm64)
root=$(tests/vm/arm64_root.sh)
job=$(mktemp -d "${TMPDIR:-/tmp}/arm64.XXXXXX")
qemu_pid=
clean_up() { [[ -z $qemu_pid ]] || kill -9 "$qemu_pid" 2> /dev/null || true; rm -rf "$job"; }
trap clean_up EXIT
trap 'exit 130' INT TERM

lib_copy() { # file: what it links, and what that links
	local l at
	for l in $(readelf -dW "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
		[[ -e $job/tree/lib/$l ]] && continue
		at=$root/usr/lib/aarch64-linux-gnu/$l
		[[ -e $at ]] || continue # the stand-ins' own
		cp -L "$at" "$job/tree/lib/$l"
		lib_copy "$at"
	done
}

mkdir -p "$job"/{tree/ranktrace/lib/ranktrace,tree/lib,host}
cp "$O/arm64/ranktrace" "$job/tree/ranktrace/"
cp -r "$O/arm64/lib/ranktrace/sim" "$job/tree/ranktrace/lib/ranktrace/"
for f in "$O/arm64/ranktrace" "$O"/arm64/lib/ranktrace/sim/{simjob,libnccl.so.2,libcuda.so.1}; do lib_copy "$f"; done
cp -L "$root/usr/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1" "$job/tree/lib/"
EXTRA=$job/tree tests/vm/initramfs.sh "$kernel" "$root/bin/busybox" "$job/initrd" tests/vm/arm64_init.sh virtio_pci \
	9pnet_virtio 9p
nice -n 5 qemu-system-aarch64 -machine virt -cpu cortex-a72 -smp 2 -m 2G -nographic -no-reboot -nodefaults -nic none \
	-serial "file:$job/console" -kernel "$kernel/vmlinuz" -initrd "$job/initrd" \
	-append "console=ttyAMA0 quiet loglevel=4 panic=-1" \
	-virtfs local,path="$job/host",mount_tag=job,security_model=none < /dev/null > "$job/qemu" 2>&1 &
qemu_pid=$!
end=$((SECONDS + ${ARM64_SECONDS:-400}))
while [[ ! -e $job/host/status ]] && ((SECONDS < end)) && kill -0 "$qemu_pid" 2> /dev/null; do sleep 0.5; done
cat "$job/host/log" 2> /dev/null || true
if [[ ! -e $job/host/status ]]; then
	echo "the arm64 guest did not finish; its console:"
	cat "$job/qemu"; tail -n 30 "$job/console" | tr -d '\r'
	exit 1
fi
[[ $(< "$job/host/status") = 0 ]] || exit 1
python3 -B tests/vm/compare.py "$job/host/ops.jsonl" "$job/host/job.rtr"
