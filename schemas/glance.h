/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * glance.h - what one pass over the kernel's tasks says of each process: just enough to see that nothing happened to
 * it since the last pass. Between kernel and collector of one build; never stored.
 */
#ifndef RANKTRACE_GLANCE_H
#define RANKTRACE_GLANCE_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

enum glance_rests { GLANCE_LOOK, GLANCE_RESTS, GLANCE_RESTS_KERNEL /* a kernel thread */ };

#define BORN_MAX 1024 /* strangers that forked or called exec, noted between two scans; as many: more did */

struct process_glance {
	__u32 tgid, parent_tgid;
	__u64 start_ns; /* with tgid the key */
	__u64 execs;    /* of its first thread */
	__u64 pages;    /* of its address space: moves with every mmap */
	__u32 uid;      /* real, as the host counts */
	__u16 over;     /* its first thread ended, or its memory went */
	__u16 rests;    /* enum glance_rests: the reader's own mark; 0 from the kernel */
};
_Static_assert(sizeof(struct process_glance) == 40, "process_glance");

#endif
