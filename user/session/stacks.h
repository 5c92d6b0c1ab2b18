/* SPDX-License-Identifier: Apache-2.0
 *
 * stacks.h - stacks for a hang in a live session.
 *
 * When a hang is reported, and shortly before a rank is late, a thread with a helper process of its own reads the main
 * threads' stacks of the culprits (of a process that is several ranks that of the thread that is named) and of a few
 * that wait for them, and what each sleeps for; the latter again and again while the hang lasts. Both become records.
 * The loop never waits for these reads.
 */
#ifndef RANKTRACE_SESSION_STACKS_H
#define RANKTRACE_SESSION_STACKS_H

#include "pipeline/pipeline.h"
#include "tracers/process/stack_record.h"

#define STACKS_ASKED_MAX 32 /* processes that a user asked for and that wait */

struct session_stacks;

/* Borrows all arguments; the reader must have no other user. NULL: out of memory. */
struct session_stacks *session_stacks_new(struct reader *r, const struct pipeline *p, stack_emit *emit, void *to);
/* Waits for a read under way, for a deadline or two at most. */
void session_stacks_free(struct session_stacks *s);
/* A user wants the main thread's stack of this process: the next rounds are that. False: as many wait as may, and it is
 * not read. */
bool session_stacks_ask(struct session_stacks *s, uint32_t tgid);
/* Some that were asked for are not emitted yet. */
bool session_stacks_asked(const struct session_stacks *s);
/* For a verdict that is near, or was made a moment ago, stacks were read: what else shows where ranks are is worth its
 * price now. False with `s` NULL. */
bool session_stacks_recent(const struct session_stacks *s, uint64_t now_ns);
/* Both do nothing with `s` NULL. What was read by now, as records: before a tick. Of a culprit, so that its finding is
 * to be judged at once: *ret_of_culprit, else that stays as it is. 0, or the error of emit(). */
int session_stacks_emit(struct session_stacks *s, uint64_t now_ns, bool *ret_of_culprit);
/* Begins to read what is due: after the detectors ran. */
void session_stacks_begin(struct session_stacks *s, uint64_t now_ns);

#endif
