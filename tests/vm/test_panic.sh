#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A guest's kernel that panics by itself is distinguished from what is ours: by consoles of guests, cut short.
cd "$(dirname "$0")/../.." || exit 2
console=$(mktemp)
trap 'rm -f "$console"' EXIT

expect() { # status, line; the console on standard input
	local got status
	cat > "$console"
	got=$(tests/vm/panic.sh "$console")
	status=$?
	[[ $status == "$1" && $got == "$2" ]] || { echo "FAIL: status $status, \"$got\"; not $1, \"$2\""; exit 1; }
}

expect 0 'BUG: unable to handle page fault for address: ffffa1c4 in try_to_wake_up+0x7a/0x6b0' << 'END'
[   41.102938] BUG: unable to handle page fault for address: ffffa1c4
[   41.102940] #PF: supervisor write access in kernel mode
[   41.103011] Oops: 0002 [#1] PREEMPT SMP NOPTI
[   41.103100] RIP: 0010:try_to_wake_up+0x7a/0x6b0
[   41.103200] Call Trace:
[   41.103201]  <IRQ>
[   41.103202]  hrtimer_wakeup+0x22/0x30
[   41.104000] RIP: 0010:default_idle+0xf/0x20
[   41.105000] Kernel panic - not syncing: Fatal exception in interrupt
END
expect 3 'BUG: kernel NULL pointer dereference, address: 0000000000000008 in uprobe_notify_resume+0x41/0x9c0' << 'END'
[   12.000000] BUG: kernel NULL pointer dereference, address: 0000000000000008
[   12.000100] RIP: 0010:uprobe_notify_resume+0x41/0x9c0
[   12.000200]  exit_to_user_mode_loop+0x90/0x130
[   12.000300] Kernel panic - not syncing: Fatal exception
END
expect 0 'Kernel panic - not syncing: sysrq triggered crash' << 'END'
[    9.500000] sysrq: Trigger a crash
[    9.500100] Kernel panic - not syncing: sysrq triggered crash
[    9.500200] RIP: 0033:0x7f1a70cad350
END
expect 1 '' << 'END'
guest: module rdma_rxe does not load
[   15.000000] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100
END
expect 1 '' << 'END'
[   15.000000] watchdog: BUG: soft lockup - CPU#1 stuck for 26s!
[   61.000000] reboot: Power down
END
echo "ok"
