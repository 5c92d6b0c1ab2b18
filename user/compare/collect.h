/* SPDX-License-Identifier: Apache-2.0
 *
 * collect.h - a listener of the pipeline that measures what it passes on: steps, phases, lateness, operations.
 */
#ifndef RANKTRACE_COMPARE_COLLECT_H
#define RANKTRACE_COMPARE_COLLECT_H

#include <stdbool.h>

#include "compare/measures.h"
#include "sink/sink.h"

struct collected {
	struct measures measures; /* in order: steps, phases, lateness by rank; operations by communicator */
	int n_ranks;              /* with a step */
	bool phases;              /* some step had them */
	bool rivals;              /* two living processes have one rank's number, and were measured as one */
	uint64_t n_ops, n_vague;  /* ended; of these: nothing is known of how long they lasted */
};

struct collector;

/* NULL: out of memory. The pipeline that it is added to closes it: collector_take() before. */
struct collector *collector_new(void);
struct sink *collector_sink(struct collector *c);
/* What it has measured since the last call; the caller frees `ret->measures`. 0, or -ENOMEM, also where memory was
 * short before. */
int collector_take(struct collector *c, struct collected *ret);

#endif
