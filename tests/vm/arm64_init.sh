#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# /init of the arm64 guest, which has a root of its own: loads every program, then records a known workload. Its log,
# the recording and the status go to the host over 9p, which compares (arm64.sh).
export PATH=/bin HOME=/root
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm /tmp /job /mnt
mount -t tmpfs tmpfs /dev/shm
mount -t bpf bpf /sys/fs/bpf
for m in /modules/*.ko; do insmod "$m"; done
mount -t 9p -o trans=virtio,version=9p2000.L,cache=none job /job
exec > /job/log 2>&1
ip link set lo up
: > /job/started
echo "KERNEL $(uname -r) $(uname -m)"

tracer_wait() { # pid of the tracer: until it is on both libraries of both ranks, with all probes
	i=0 before=
	while [ $i -lt 150 ] && kill -0 "$1"; do
		sleep 1
		i=$((i + 1))
		grep -qE '^Sig(Blk|Cgt):.*[2367abef]..$' "/proc/$1/status" ||
			continue # before that it would end of the question
		kill -USR1 "$1"
		sleep 1
		now=$(sed -nE 's/.* ([4-9]|[1-9][0-9]) libraries, ([1-9][0-9]*) probes.*/\2/p' /tmp/talk | tail -n 1)
		[ -n "$now" ] && [ "$now" = "$before" ] && return 0
		before=$now
	done
	echo "the tracer did not attach"
	return 1
}

status=1
if /ranktrace/ranktrace ps --kernel --load > /tmp/kernel 2>&1; then
	echo "PASSED programs: $(grep -c 'load .*: ok' /tmp/kernel) objects loaded"
	/ranktrace/ranktrace record --budget no -o /tmp/job.rtr -- /ranktrace/ranktrace sim job --ranks 2 --steps 6 \
		--layout tp=1,dp=1,pp=2 \
		--extra-ops --no-dataloader --start-file /tmp/start --log /tmp/ops.jsonl > /tmp/out 2> /tmp/talk &
	tracer=$!
	tracer_wait $tracer && : > /tmp/start && wait $tracer
	status=$?
	[ $status = 1 ] && status=0 # a finding about a slow guest
	cp /tmp/job.rtr /tmp/ops.jsonl /job/
	tail -n 5 /tmp/talk
else
	cat /tmp/kernel
fi
echo $status > /job/status.new
mv /job/status.new /job/status
poweroff -f
