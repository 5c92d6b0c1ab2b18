#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# /init of a guest, in the initramfs: the host's root below an overlay in memory, then guest_main.sh as the first
# process.
set -e # the first process's end is a panic, and the guest's
export PATH=/bin
for tool in mount mkdir insmod switch_root sed; do /bin/busybox ln -s busybox /bin/$tool; done
mount -t proc proc /proc
for m in /modules/*.ko; do insmod "$m"; done
options=trans=virtio,version=9p2000.L,msize=262144
mkdir -p /lower /memory
mount -t 9p -o ro,$options,cache=loose root /lower
mount -t tmpfs -o size=75% tmpfs /memory
mkdir /memory/upper /memory/work
mount -t overlay -o lowerdir=/lower,upperdir=/memory/upper,workdir=/memory/work overlay /root
mkdir -p /root/run/guest /root/run/guest-out
mount -t 9p -o $options,cache=none job /root/run/guest
mount -t 9p -o $options,cache=none out /root/run/guest-out
exec switch_root /root /bin/bash /run/guest/main
