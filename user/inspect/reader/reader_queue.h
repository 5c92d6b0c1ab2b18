/* SPDX-License-Identifier: Apache-2.0
 *
 * reader_queue.h - what may be waited of a second, and for which files: each queue has a wait and a slow file of its
 * own. Private to reader.c.
 */
#ifndef RANKTRACE_TARGET_READER_QUEUE_H
#define RANKTRACE_TARGET_READER_QUEUE_H

#include "inspect/reader/reader.h"
#include "inspect/reader/reader_slow.h"

struct allowance { /* of waiting, in a second */
	uint64_t left_ns, at_ns;
};

/* `second_ns`: the most of it, and what each second adds. */
uint64_t allowance_left(struct allowance *a, uint64_t second_ns);
void allowance_spend(struct allowance *a, uint64_t ns);

struct file_queue {
	struct allowance running;
	double share; /* of what the first queue may wait */
	struct slow_files slow;
};

/* All of a second is left to each. */
void queues_reset(struct file_queue queues[READER_QUEUES], uint64_t second_ns);
uint64_t queue_left(struct file_queue *q, uint64_t second_ns); /* second_ns: the first queue's */
void queues_sweep(struct file_queue queues[READER_QUEUES]);
void queues_free(struct file_queue queues[READER_QUEUES]);

#endif
