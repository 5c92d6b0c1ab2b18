/* SPDX-License-Identifier: Apache-2.0
 *
 * sched_sample.h - what two samples of a thread say of the time between them: one that was not switched, and shows the
 * same state, was in it all the while. Pure.
 */
#ifndef RANKTRACE_SCHED_SAMPLE_H
#define RANKTRACE_SCHED_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "tracers/sched/sched.h"

struct sched_sampled {     /* of one thread, zeroed before its first sample */
	uint64_t at_ns;    /* of the last sample; 0 none yet */
	uint64_t since_ns; /* the first sample that showed this state, with no switch since */
	uint64_t switches;
	uint64_t sleep_ns, disk_ns, stopped_ns; /* seen to be spent so; never more than was */
	uint32_t state;
};

/* Takes a sample, and fills what the scheduler's records would have said. A state's begin is never earlier than the
 * truth, and late by the time between two samples at most. */
void sched_sample_take(struct sched_sampled *k, const struct sched_sample *l, uint64_t now_ns, struct sched_entry *ret);

#endif
