/* SPDX-License-Identifier: Apache-2.0
 *
 * wait.h - what a thread that sleeps waits for: its system call, what that call's arguments lead to, and who is at the
 * other end. No ptrace, no signal, no stop. Memory of the target and all that may block behind it is read in the
 * reader's worker, with a deadline; what cannot be had stays unknown.
 */
#ifndef RANKTRACE_INSPECT_WAIT_H
#define RANKTRACE_INSPECT_WAIT_H

#include "inspect/reader/reader.h"
#include "waits_for.h"

#define WAIT_DEADLINE_MS 500

struct target_wait { /* `w` points into it: target_wait_copy() */
	uint32_t tgid, tid;
	struct waits_for w;
	char what[256], who[32], activity[256];
	/* totals, for a second sample: bytes of the socket, or of the process that works on the file; CPU time of whom
	 * it waits for; how often the thread went to sleep */
	uint64_t bytes, work_ns, switches;
};

/* 0, `ret->w.kind` WAITS_UNKNOWN when it runs or it cannot be read; -ESRCH gone, -EPERM or -EACCES not allowed to look
 * at it, -EINPROGRESS the reader's timeout is over. Takes some deadlines at most. */
int target_wait_read(struct reader *r, uint32_t tgid, uint32_t tid, unsigned deadline_ms, struct target_wait *ret);
void target_wait_copy(struct target_wait *to, const struct target_wait *from);
/* `now` was read some time after `before`: sets whether anything moved between the two. Pure. */
void target_wait_compare(const struct target_wait *before, struct target_wait *now);

#endif
