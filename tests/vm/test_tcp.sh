#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# TCP in guests: the tracer's counts, and a four-rank job over links made bad by the kernel's own netem, or filled by
# others (tests/machine/test_tcp_events.py, tests/faults/test_f12_tcp.py, test_f13_tcp.py), in tier watch: what probes
# cost under software emulation is no part of it.
# Minutes, so in `make test-long` only (or LONG=1). KERNELS="6.1" CASES="loss killed" SHAPES="long short": these only.
set -euo pipefail
cd "$(dirname "$0")/../.."
[[ ${LONG:-} ]] || { echo "takes minutes: LONG=1"; exit 77; }
unset LONG # the bars are this machine's, not a guest's
[[ $(id -u) = 0 ]] || { echo "needs root (BPF)"; exit 77; }
for kernel in ${KERNELS:-5.10 6.1 6.12}; do
	echo "kernel $kernel"
	status=0
	# shellcheck disable=SC2016
	tests/vm/guest.sh "$kernel" --modules "veth bridge sch_netem tcp_diag" --seconds 1800 -- bash -c '
		echo "KERNEL $(uname -rm)"
		export TRIALS=1 TIER=watch RANKS=4 ATTACH_S=40
		for shape in '"${SHAPES:-long}"'; do
			for case in '"${CASES:-events loss delay rate down blackhole killed background}"'; do
				case $case in
				events) script=events ;;
				background) script=f13 ;;
				*) script=f12 ;;
				esac
				file=$(ls tests/*/test_"${script/events/tcp_events}"*.py | grep tcp)
				ONLY=$case SHAPE=$shape timeout 300 python3 -B "$file" ||
					{ echo "FAILED $case, shape $shape"; exit 1; }
				echo "PASSED $case, shape $shape"
			done
		done' || status=$?
	((status == 0)) || exit $status
done
