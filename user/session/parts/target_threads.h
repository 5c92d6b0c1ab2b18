/* SPDX-License-Identifier: Apache-2.0
 *
 * target_threads.h - names of a traced process' threads, emitted as RECORD_THREAD when they are new or change.
 */
#ifndef RANKTRACE_TARGET_THREADS_H
#define RANKTRACE_TARGET_THREADS_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/wire.h"

struct target_threads; /* of one process; NULL: none was emitted yet */

void target_threads_free(struct target_threads **t);
/* Reads threads of the process and emits what is new: all of them, or so many that the loop can wait for them, and the
 * next at the next call, from *from on (0 at first). Returns 0, -ENOMEM, or what emit() returned. */
int target_threads_emit(struct target_threads **t, size_t *from, uint32_t tgid, uint64_t now_ns,
			int (*emit)(void *to, const struct wire_hdr *rec), void *to);

#endif
