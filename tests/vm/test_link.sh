#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A job over real verbs on soft-RoCE in guests, and a network that is made bad under it (tests/vm/link_guest.py).
# Minutes under software emulation, so in `make test-long` only (or LONG=1). KERNELS="6.1" CASES="results loss": these
# only.
set -euo pipefail
cd "$(dirname "$0")/../.."
[[ ${LONG:-} ]] || { echo "takes minutes: LONG=1"; exit 77; }
for tool in rdma tc ib_write_bw; do
	command -v $tool > /dev/null || { echo "$tool is missing (packages iproute2, perftest)"; exit 77; }
done
for kernel in ${KERNELS:-6.1 6.12}; do
	echo "kernel $kernel"
	status=0
	# shellcheck disable=SC2086
	tests/vm/guest.sh "$kernel" --modules "crc32_generic ib_uverbs rdma_rxe veth bridge sch_netem" --seconds 700 \
		-- python3 -B tests/vm/link_guest.py \
		${CASES:-results posts healthy background loss delay rate kill down} || status=$?
	((status == 0)) || exit $status
done
