#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `ranktrace stress rdma` on soft-RoCE in guests (tests/vm/stress_rdma_guest.py): against perftest, in a guest whose
# clock is what it executed; and over a network that is made bad. Minutes under software emulation, so in
# `make test-long` and `make test-vm` only (or LONG=1). CASES="loss cap": these only.
set -euo pipefail
cd "$(dirname "$0")/../.."
[[ ${LONG:-} ]] || { echo "takes minutes: LONG=1"; exit 77; }
for tool in rdma tc ib_write_bw; do
	command -v $tool > /dev/null || { echo "$tool is missing (packages iproute2, perftest)"; exit 77; }
done
modules="crc32_generic ib_uverbs rdma_rxe veth bridge sch_netem sch_tbf"
in_guest() { # kernel, cases...
	local kernel=$1
	shift
	# One CPU: with two, soft-RoCE's packets overtake each other, and it sends again what was not lost.
	VM_ICOUNT=${ICOUNT-2} VM_CPUS=${CPUS:-1} VM_BOOT_SECONDS=400 tests/vm/guest.sh "$kernel" --modules "$modules" \
		--seconds 900 -- python3 -B tests/vm/stress_rdma_guest.py "$@"
}
for kernel in ${KERNELS:-6.1 6.12}; do
	echo "kernel $kernel"
	[[ ${CASES:-} ]] || in_guest "$kernel" compare {send,write,read}-{bandwidth,rate} read-latency
	[[ ${CASES:-} ]] || ICOUNT='' CPUS=2 VM_APPEND=tsc=reliable RANKTRACE_ROUNDS=61 in_guest "$kernel" compare \
		write-least send-least # a host with two CPUs free
	cases="mtu dead apart loss cap healthy"
	# 6.1 sends large packets again without an end, in the kernel: one CPU does nothing else
	[[ $kernel = 6.1 ]] || cases+=" small"
	# shellcheck disable=SC2086
	in_guest "$kernel" ${CASES:-$cases}
done
