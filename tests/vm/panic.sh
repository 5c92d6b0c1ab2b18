#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a guest's kernel died of, by its console:
#   tests/vm/panic.sh CONSOLE
# Prints the first line of it, and the place. 0: the kernel's own trouble (emulation shows races of the kernel that
# hardware hides). 1: it did not panic, or for its first process that ended: ours. 3: a panic with uprobes or BPF on its
# stack: perhaps ours, so no second boot may hide it.
set -euo pipefail
text=$(tr -d '\r' < "$1" | sed -E 's/^(<[0-9]+>)?\[ *[0-9.]+\] ?//')
grep -q '^Kernel panic - not syncing' <<< "$text" || exit 1
trouble='^(BUG: |kernel BUG at |Oops|general protection fault|Unable to handle|Internal error|divide error|'
trouble+='invalid opcode|stack segment|Kernel panic)'
first=$(grep -m 1 -E "$trouble" <<< "$text")
[[ $first != *'Attempted to kill init'* ]] || exit 1
place=$(sed -n "/^${first//[^A-Za-z0-9 ]/.}/,\$p" <<< "$text" |
	sed -nE '0,/^(RIP: [0-9a-f]+:|pc : )[A-Za-z_]/s/^(RIP: [0-9a-f]+:|pc : )([A-Za-z_][^ ]*).*/\2/p')
echo "$first${place:+ in $place}"
! grep -qE '\b(bpf_|__bpf|uprobe_|handle_swbp|arch_uprobe)' <<< "$text" || exit 3
