/* SPDX-License-Identifier: Apache-2.0
 *
 * stack_record.h - the record of one thread's stack as it was read from outside, or of why there is none.
 */
#ifndef RANKTRACE_STACK_RECORD_H
#define RANKTRACE_STACK_RECORD_H

#include "schemas/wire.h"
#include "inspect/stack/stack.h"

typedef int stack_emit(void *to, const struct wire_hdr *rec);

/* `ns`: when it was read. What emit() returns. */
int stack_record_emit(uint32_t tgid, uint64_t ns, const struct stack_thread *t, stack_emit *emit, void *to);
/* No stack of the process could be read; `error` as of target_stacks_read(), -ETIME: there was no time for it. */
int stack_record_unread(uint32_t tgid, uint64_t ns, int error, stack_emit *emit, void *to);

#endif
