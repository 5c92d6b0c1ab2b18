/* SPDX-License-Identifier: Apache-2.0
 *
 * stacks.h - stacks for a hang in a live session.
 *
 * When a hang is reported, a thread with a helper process of its own reads the main threads' stacks of the named
 * processes and of a few that wait for them, and what each sleeps for. Both become records. The loop never waits for
 * these reads.
 */
#ifndef RANKTRACE_SESSION_STACKS_H
#define RANKTRACE_SESSION_STACKS_H

#include "pipeline/pipeline.h"
#include "tracers/process/stack_record.h"

struct session_stacks;

/* Borrows all arguments; the reader must have no other user. NULL: out of memory. */
struct session_stacks *session_stacks_new(struct reader *r, const struct pipeline *p, stack_emit *emit, void *to);
/* Waits for a read under way, for a deadline or two at most. */
void session_stacks_free(struct session_stacks *s);
/* Call it at every tick. Returns 0, or the error of emit(). */
int session_stacks_tick(struct session_stacks *s, uint64_t now_ns);

#endif
