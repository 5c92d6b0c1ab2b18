#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a program pays that spins in ibv_poll_cq(): tests/vm/rdma_poller.py in guests whose clock counts instructions, so
# that neither this machine's noise nor its load is in it. One CPU: with more, each would count what the others
# executed. Minutes: LONG=1.
set -euo pipefail
cd "$(dirname "$0")/../.."
[[ ${LONG:-} ]] || { echo "takes minutes: LONG=1"; exit 77; }
command -v rdma > /dev/null || { echo "rdma is missing (package iproute2)"; exit 77; }
O=${O:-build}
cc -O2 -Wall -o "$O/rdma_poller" tests/vm/rdma_poller.c -libverbs 2> "$O/rdma_poller.log" ||
	{ tail -n 3 "$O/rdma_poller.log"; exit 77; }
for kernel in ${KERNELS:-6.1 6.12}; do
	echo "kernel $kernel"
	status=0
	VM_ICOUNT=2 VM_CPUS=1 VM_BOOT_SECONDS=240 tests/vm/guest.sh "$kernel" \
		--modules "crc32_generic ib_uverbs rdma_rxe veth" --seconds 600 -- \
		python3 -B tests/vm/rdma_poller.py --least 0.99 "${ROUNDS:-6}" || status=$?
	((status == 0)) || exit $status
done
