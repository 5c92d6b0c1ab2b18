/* SPDX-License-Identifier: Apache-2.0
 *
 * ahead.h - walks over all processes and members that do not wait for the memory. Of a large job these lie all over it:
 * each has a hint which one comes some places later, and a walk has that fetched into the cache meanwhile.
 */
#ifndef RANKTRACE_AHEAD_H
#define RANKTRACE_AHEAD_H

#include <stdlib.h>
#include <string.h>

#include "model/model.h"

#define LINE_BYTES 64 /* of the cache */

static inline void lines_fetch(const void *at, size_t bytes)
{
	for (size_t i = 0; at && i < bytes; i += LINE_BYTES)
		__builtin_prefetch((const char *)at + i);
}

/* The next process of the model. */
static inline struct proc *proc_next(const struct proc *p)
{
	lines_fetch(p->ahead, PROC_WALKED_BYTES);
	return p->next;
}

/* The next member of the communicator. */
static inline struct member *member_next_in_comm(const struct member *mb)
{
	lines_fetch(mb->ahead_in_comm, MEMBER_COMPARED_BYTES);
	lines_fetch(mb->ahead_proc, PROC_WALKED_BYTES);
	return mb->next_in_comm;
}

/* The next member of the process; of a walk over all processes. */
static inline struct member *member_next_in_proc(const struct member *mb)
{
	lines_fetch(mb->ahead_in_proc, MEMBER_WALKED_BYTES);
	return mb->next_in_proc;
}

/* Zeroed, for free(); its beginning lies in as few lines of the cache as it can. NULL without memory. */
static inline void *lines_alloc(size_t bytes)
{
	size_t whole = (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
	void *p = aligned_alloc(LINE_BYTES, whole);

	return p ? memset(p, 0, whole) : NULL;
}

/* Records of these processes, by proc_key(), come next: what they will be added to is fetched, for all at once. */
void model_fetch(const struct model *m, const uint64_t *procs, size_t n);
void ahead_tick(struct model *m); /* for the model itself: renews the hints */

#endif
