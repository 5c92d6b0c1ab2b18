#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Faults of our own with cgroups of version 2, where a host may have version 1 for memory and CPU time: each fault of
# tests/own/test_own_faults.py once, in a guest. Many minutes under emulation: LONG=1.
set -euo pipefail
cd "$(dirname "$0")/../.."
[[ ${LONG:-} ]] || { echo "takes many minutes: LONG=1"; exit 77; }
unset LONG # a guest is no place for its counts
# shellcheck disable=SC2016
exec tests/vm/guest.sh "${KERNEL:-6.12}" --seconds 3000 -- bash -c '
	echo "+memory +cpu" > /sys/fs/cgroup/cgroup.subtree_control && GUEST=1 python3 -B tests/own/test_own_faults.py'
