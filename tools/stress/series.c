/* SPDX-License-Identifier: Apache-2.0
 *
 * series.c - see series.h.
 */
#include "tools/stress/series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void series_add(struct series *s, double value)
{
	if (!s->step)
		s->step = 1;
	if (++s->skipped < s->step)
		return;
	s->skipped = 0;
	if (s->n == SERIES_MAX) {
		for (uint32_t i = 0; i < SERIES_MAX / 2; i++)
			s->values[i] = s->values[2 * i + 1];
		s->n = SERIES_MAX / 2;
		s->step *= 2;
	}
	s->values[s->n++] = (float)value;
}

static int by_size(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static double median_of(const float *values, uint32_t n)
{
	float *sorted = n ? malloc(n * sizeof(*sorted)) : NULL;
	double median = NAN;

	if (sorted) {
		memcpy(sorted, values, n * sizeof(*sorted));
		qsort(sorted, n, sizeof(*sorted), by_size);
		median = (sorted[(n - 1) / 2] + (double)sorted[n / 2]) / 2;
	}
	free(sorted);
	return median;
}

double series_median(const struct series *s)
{
	return median_of(s->values, s->n);
}

bool series_trend(const struct series *s, double *change)
{
	uint32_t third = s->n / 3;

	if (s->n < SERIES_TREND_MIN)
		return false;
	*change = median_of(s->values + s->n - third, third) / median_of(s->values, third) - 1;
	return true;
}

double values_median(const double *values, int n)
{
	struct series s = { 0 };

	for (int i = 0; i < n; i++)
		series_add(&s, values[i]);
	return series_median(&s);
}

double values_quantile(const double *values, int n, double share)
{
	struct series s = { 0 };
	int at = (int)ceil(share * n) - 1;

	for (int i = 0; i < n; i++)
		series_add(&s, values[i]);
	qsort(s.values, s.n, sizeof(s.values[0]), by_size);
	return n > 0 ? s.values[at < 0 ? 0 : at] : NAN;
}
