#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The verbs tracer over a real provider (soft-RoCE) in guests: perftest and rc_pingpong from the start
# (tests/vm/rdma_guest.py), in the middle, far ends, moved providers (rdma_guest_late.py), bad input
# (rdma_guest_bad.py). Two kernels, one without uprobe.multi. Minutes under software emulation, so in `make test-long`
# only (or LONG=1).
set -euo pipefail
cd "$(dirname "$0")/../.."
[[ ${LONG:-} ]] || { echo "takes minutes: LONG=1"; exit 77; }
for tool in ib_write_bw ibv_rc_pingpong rdma strip setpriv; do
	command -v $tool > /dev/null ||
		{ echo "$tool is missing (packages perftest, ibverbs-utils, iproute2, binutils, util-linux)"; exit 77; }
done
for kernel in ${KERNELS:-6.1 6.12}; do
	for part in ${PARTS:-rdma_guest rdma_guest_late rdma_guest_bad}; do
		echo "kernel $kernel, $part"
		status=0
		tests/vm/guest.sh "$kernel" --modules "crc32_generic ib_uverbs rdma_rxe veth" --seconds 600 -- \
			python3 -B "tests/vm/$part.py" || status=$?
		((status == 0)) || exit $status
	done
done
