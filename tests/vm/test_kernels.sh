#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The quick part of the kernel matrix: on 5.10 (neither cookies nor uprobe.multi) and 6.1 (no uprobe.multi) every tracer
# loads and a known workload is counted exactly; a hang is found on the oldest. `make test-vm` runs all of it, and on
# 6.12, which attaches as a newer host does.
[[ $(id -u) = 0 ]] || { echo "needs root (BPF)"; exit 77; }
exec "$(dirname "$0")/run.sh" quick
