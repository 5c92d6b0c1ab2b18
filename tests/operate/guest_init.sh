#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# /init of a guest that boots a Debian root as it is, systemd first: the root over 9p below an overlay in memory.
set -e # the first process's end is a panic, and the guest's
export PATH=/bin
for tool in mount mkdir insmod switch_root cat; do /bin/busybox ln -s busybox /bin/$tool; done
mount -t proc proc /proc
for m in /modules/*.ko; do insmod "$m"; done
options=trans=virtio,version=9p2000.L,msize=262144
mkdir -p /lower /memory
mount -t 9p -o ro,$options,cache=loose root /lower
mount -t tmpfs -o size=75% tmpfs /memory
mkdir /memory/upper /memory/work
mount -t overlay -o lowerdir=/lower,upperdir=/memory/upper,workdir=/memory/work overlay /root
mkdir -p /root/mnt/guest
mount -t 9p -o $options,cache=none job /root/mnt/guest
mkdir -p /root/etc/systemd/system/multi-user.target.wants
cat > /root/etc/systemd/system/guest.service <<'EOF'
[Service]
ExecStart=/bin/bash /mnt/guest/test.sh
EOF
# its processor is emulated: all takes twenty times as long as on a host
mkdir -p /root/etc/systemd/system/ranktrace.service.d
printf '[Service]\nWatchdogSec=600\nTimeoutStartSec=600\n' > /root/etc/systemd/system/ranktrace.service.d/slow.conf
/bin/busybox ln -sf ../guest.service /root/etc/systemd/system/multi-user.target.wants/guest.service
exec switch_root /root /sbin/init
