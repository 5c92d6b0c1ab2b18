#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A container as a runtime makes it, of what a kernel gives: own mount and pid namespaces, the host's root as overlay
# image, pivot_root, a pod's cgroup. container.sh DIR LIBNCCL CGROUP COMMAND...: DIR (existing) is seen inside under its
# own name and holds the upper layer's mount; LIBNCCL (or -) replaces the image's library under the same path, CGROUP
# (or
# -) is made below the hierarchy's root.
set -eu
if [ "${INSIDE:-}" != yes ]; then
	cgroup=$3
	root=/sys/fs/cgroup
	[ -e $root/cgroup.procs ] || root=/sys/fs/cgroup/systemd
	if [ "$cgroup" != - ]; then
		mkdir -p "$root/$cgroup"
		echo $$ > "$root/$cgroup/cgroup.procs"
	fi
	export INSIDE=yes
	exec unshare --mount --pid --fork --kill-child bash "$0" "$@"
fi
dir=$1 library=$2
shift 3
sim=$(realpath "${O:-build}")/lib/ranktrace/sim
mount --make-rprivate /
mkdir -p "$dir/layers"
mount -t tmpfs none "$dir/layers"
mkdir "$dir/layers/upper" "$dir/layers/work" "$dir/layers/root"
root=$dir/layers/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/layers/upper,workdir=$dir/layers/work" "$root"
[ "$library" = - ] || { cp --remove-destination "$(realpath "$library")" "$root$sim/libnccl.so.2"; }
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mkdir -p "$root$dir" "$root/.old"
mount --bind "$dir" "$root$dir"
here=$PWD
cd "$root"
pivot_root . .old
umount --lazy /.old
cd "$here"
unset INSIDE
exec "$@"
