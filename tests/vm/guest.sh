#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Boots a small guest on a Debian kernel and runs a command in it:
#   tests/vm/guest.sh KERNEL [--modules "a b"] [--seconds N] [--out DIR] -- COMMAND...
# The guest sees this machine's root read-only over 9p below an overlay in its memory (what it writes is gone
# afterwards, but for $GUEST_OUT, which is DIR), runs COMMAND in the same folder and returns its output and exit status.
# Any number may run at once. VM_ICOUNT=N: time in the guest is what it executed, 2^N ns an instruction, and all its
# CPUs (VM_CPUS, 2) take turns on one of this machine's: whatever else runs here cannot be seen in its clock.
# VM_APPEND: more of the kernel's command line. Exit 124: COMMAND ran past its N seconds (default 300), or the guest
# died. 125: the guest did not come up, twice. 77: qemu or the kernel cannot be had. A guest whose kernel panicked by
# itself (panic.sh) is booted once more, and standard error says so.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
modules= seconds=300 out= boot_seconds=${VM_BOOT_SECONDS:-150}

usage() { sed -n '3,13s/^# //p' "$0" >&2; exit 2; }

[[ $# -ge 1 ]] || usage
kernel=$1
shift
while [[ $# -gt 0 && $1 != -- ]]; do
	[[ $# -ge 2 ]] || usage
	case $1 in
	--modules) modules=$2 ;;
	--seconds) seconds=$2 ;;
	--out) out=$2 ;;
	*) usage ;;
	esac
	shift 2
done
[[ ${1:-} = -- && $# -ge 2 ]] || usage
shift
command -v qemu-system-x86_64 > /dev/null || { echo "qemu-system-x86_64 is missing (make deps-test)" >&2; exit 77; }
busybox=$(command -v busybox) || { echo "busybox is missing (make deps-test)" >&2; exit 77; }
root=$("$here/kernel.sh" "$kernel")

job=$(mktemp -d "${TMPDIR:-/tmp}/guest.XXXXXX")
qemu_pid=
guest_end() { [[ -z $qemu_pid ]] || kill -9 "$qemu_pid" 2> /dev/null || true; rm -rf "$job"; }
trap guest_end EXIT
trap 'exit 130' INT TERM
mkdir -p "$job/host" "${out:-$job/out}"
out=$(realpath "${out:-$job/out}")

{ # what the guest's first process reads
	printf 'cd %q\n' "$PWD"
	for v in PATH HOME O LONG SEED ${!RANKTRACE_*} ${!SIM_*}; do
		[[ -z ${!v+x} ]] || printf 'export %s=%q\n' "$v" "${!v}"
	done
	printf 'guest_modules=%q\nguest_command() {' "$modules"
	printf ' %q' "$@"
	printf '\n}\n'
} > "$job/host/job"
"$here/initramfs.sh" "$root" "$busybox" "$job/initrd" "$here/guest_init.sh" virtio_pci 9pnet_virtio 9p overlay
cp "$here/guest_main.sh" "$job/host/main"

clock=(-accel tcg,thread=multi)
[[ -z ${VM_ICOUNT:-} ]] || clock=(-accel tcg,thread=single -icount "shift=$VM_ICOUNT")

append="kernel_dir=$root ${VM_APPEND:-}"

guest_start() {
	rm -f "$job"/host/{started,output,status}
	nice -n 10 qemu-system-x86_64 -machine q35 "${clock[@]}" -cpu max,la57=off -smp "${VM_CPUS:-2}" \
		-m "${VM_MEMORY:-4G}" \
		-nographic -no-reboot -nodefaults -nic none -serial "file:$job/console" \
		-kernel "$root/vmlinuz" -initrd "$job/initrd" \
		-append "console=ttyS0 quiet loglevel=4 panic=-1 oops=panic mitigations=off nokaslr $append" \
		-virtfs local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap \
		-virtfs local,path="$job/host",mount_tag=job,security_model=none \
		-virtfs local,path="$out",mount_tag=out,security_model=none < /dev/null > "$job/qemu" 2>&1 9>&- &
	qemu_pid=$!
}

# Wait for a file of the guest's: 0, or 1 when the guest has ended or the time is over.
guest_wait() { # file, seconds
	local end=$((SECONDS + $2))
	while [[ ! -e $job/host/$1 ]]; do
		kill -0 "$qemu_pid" 2> /dev/null || { [[ -e $job/host/$1 ]]; return; }
		((SECONDS < end)) || return 1
		sleep 0.2
	done
}

guest_stop() {
	kill -9 "$qemu_pid" 2> /dev/null || true
	wait "$qemu_pid" 2> /dev/null || true
	qemu_pid=
}

console_tail() { { cat "$job/qemu"; tail -n 70 "$job/console" 2> /dev/null | tr -d "\r"; } >&2 || true; }

guest_up() {
	local try
	for try in 1 2; do
		guest_start
		guest_wait started "$boot_seconds" && return
		echo "guest $kernel did not come up in ${boot_seconds} s (try $try of 2):" >&2
		console_tail
		guest_stop
	done
	exit 125
}

guest_up
if ! guest_wait status "$seconds" && panic=$("$here/panic.sh" "$job/console"); then
	echo "guest $kernel panicked by itself: $panic; it is booted once more" >&2
	guest_stop
	guest_up
	guest_wait status "$seconds" || true
fi
[[ -e $job/host/output ]] && cat "$job/host/output"
if [[ -e $job/host/status ]]; then
	guest_stop
	exit "$(< "$job/host/status")"
fi
if panic=$("$here/panic.sh" "$job/console") || [[ $? = 3 ]]; then
	why="its kernel panicked: $panic"
elif kill -0 "$qemu_pid" 2> /dev/null; then
	why="the command did not end within $seconds s"
else
	why="the guest died"
fi
echo "guest $kernel: $why; its console:" >&2
console_tail
guest_stop
exit 124
