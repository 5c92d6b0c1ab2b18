/* SPDX-License-Identifier: Apache-2.0
 *
 * session_stacks.h - what the culprit of a hang is doing, in a live session: once the hang is told, the stacks of the
 * main threads of those it names and of a few who wait for them are read, by a thread and a helper process of their
 * own, and become records. The loop never waits for them.
 */
#ifndef RANKTRACE_SESSION_STACKS_H
#define RANKTRACE_SESSION_STACKS_H

#include "pipeline/pipeline.h"
#include "tracers/process/stack_fact.h"

struct session_stacks;

/* Borrows everything; nobody else uses the reader meanwhile. NULL without memory. */
struct session_stacks *session_stacks_new(struct reader *r, const struct pipeline *p, stack_emit *emit, void *to);
/* Waits for a read under way: a deadline or two at worst. */
void session_stacks_free(struct session_stacks *s);
/* At every tick. 0, or what emit() returned. */
int session_stacks_tick(struct session_stacks *s, uint64_t now_ns);

#endif
