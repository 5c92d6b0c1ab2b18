/* SPDX-License-Identifier: Apache-2.0
 *
 * ps_rate.h - how often a rank takes a step, from its count of collectives alone. Pure.
 */
#ifndef RANKTRACE_PS_RATE_H
#define RANKTRACE_PS_RATE_H

#include <stddef.h>
#include <stdint.h>

struct rate_sample {
	uint64_t ns, count; /* when; collectives entered until then */
};

/* Collectives a second over all samples; 0: none, or fewer than two samples. */
double rate_of_collectives(const struct rate_sample *samples, size_t n);
/* Steps a second: how often the pattern of collectives repeats. 0: no pattern, or fewer than three repetitions. */
double rate_of_steps(const struct rate_sample *samples, size_t n);

#endif
