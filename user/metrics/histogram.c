/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram.c - see histogram.h.
 */
#include "metrics/histogram.h"

static const struct {
	const char *text; /* OpenMetrics: with a decimal point */
	uint64_t ns;
} bounds[HISTOGRAM_BOUNDS] = {
	{ "0.0003", 300000 }, { "0.001", 1000000 }, { "0.003", 3000000 },  { "0.01", 10000000 },
	{ "0.03", 30000000 }, { "0.1", 100000000 }, { "1.0", 1000000000 }, { "10.0", 10000000000 },
};

const char *histogram_bound(int i)
{
	return bounds[i].text;
}

void histogram_add(struct histogram *h, uint64_t ns)
{
	int i = 0;

	while (i < HISTOGRAM_BOUNDS && ns > bounds[i].ns)
		i++;
	h->counts[i]++;
	h->sum_ns += ns;
}

uint64_t histogram_n(const struct histogram *h)
{
	uint64_t n = 0;

	for (int i = 0; i <= HISTOGRAM_BOUNDS; i++)
		n += h->counts[i];
	return n;
}
