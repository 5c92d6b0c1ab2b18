#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The quick part of the kernel matrix: on 5.10, 6.1 and 6.12 every tracer loads and a known workload is counted exactly;
# a hang is found on the oldest. `make test-vm` runs all of it.
[[ $(id -u) = 0 ]] || { echo "needs root (BPF)"; exit 77; }
exec "$(dirname "$0")/run.sh" quick
