#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# TCP in guests: the tracer's counts, and links made bad by the kernel's own netem (tests/e2e/test_tcp_events.py, test_f12_tcp.py), in tier
# watch: what probes cost under software emulation is no part of it. Minutes, so in `make test-long` only (or LONG=1). KERNELS, FAULTS choose.
set -euo pipefail
cd "$(dirname "$0")/../.."
[[ ${LONG:-} ]] || { echo "takes minutes: LONG=1"; exit 77; }
unset LONG # the bars are this machine's, not a guest's
[[ $(id -u) = 0 ]] || { echo "needs root (BPF)"; exit 77; }
for kernel in ${KERNELS:-5.10 6.1 6.12}; do
	echo "kernel $kernel"
	status=0
	# shellcheck disable=SC2016
	tests/vm/guest.sh "$kernel" --modules "veth bridge sch_netem tcp_diag" --seconds 900 -- bash -c '
		ATTACH_S=40 timeout 150 python3 -B tests/e2e/test_tcp_events.py || exit
		for fault in '"${FAULTS:-loss delay rate down killed}"'; do
			ONLY=$fault TIER=watch timeout 300 python3 -B tests/e2e/test_f12_tcp.py || exit
		done' || status=$?
	((status == 0)) || exit $status
done
