/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram.h - how often something took how long, in Prometheus' classic form: fixed bounds, counts that only grow.
 * Native histograms are behind a flag in the Prometheus of Debian 12.
 */
#ifndef RANKTRACE_METRICS_HISTOGRAM_H
#define RANKTRACE_METRICS_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BOUNDS 8
#define HISTOGRAM_SERIES (HISTOGRAM_BOUNDS + 3) /* samples of one: each bound, +Inf, sum, count */

struct histogram {
	uint64_t counts[HISTOGRAM_BOUNDS + 1]; /* up to that bound, over the one before; the last: over all */
	uint64_t sum_ns;
};

/* The i-th bound as a label ("0.001"): also how it is compared. From a step's jitter to a hang. */
const char *histogram_bound(int i);
void histogram_add(struct histogram *h, uint64_t ns);
uint64_t histogram_n(const struct histogram *h);

#endif
