#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# First process of a guest, after the root is mounted: what a booted system has (file systems, loopback, modules), then
# the job.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t bpf bpf /sys/fs/bpf
mount -t debugfs debugfs /sys/kernel/debug
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ln -sf /proc/self/fd /dev/fd
release=$(uname -r)
. /run/guest/job
root_of_kernel=$(sed -n 's/.*kernel_dir=\([^ ]*\).*/\1/p' /proc/cmdline)
mkdir -p "/lib/modules/$release"
mount --bind "$root_of_kernel/lib/modules/$release" "/lib/modules/$release"
ip link set lo up
hostname "guest-${release%%-*}"
ulimit -n 65536
export GUEST_OUT=/run/guest-out
: > /run/guest/started
status=0
for m in $guest_modules; do
	modprobe "$m" || { echo "guest: module $m does not load" >&2; status=125; }
done > /run/guest/output 2>&1
if [[ $status = 0 ]]; then
	guest_command >> /run/guest/output 2>&1 < /dev/null
	status=$?
fi
# The host reads the status as soon as it is there: all at once, after the output.
echo "$status" > /run/guest/status.new
mv /run/guest/status.new /run/guest/status
busybox poweroff -f
