/* SPDX-License-Identifier: Apache-2.0
 *
 * series.h - numbers over time, in bounded memory: medians, and what became of them from the first third to the last.
 */
#ifndef STRESS_SERIES_H
#define STRESS_SERIES_H

#include <stdbool.h>
#include <stdint.h>

#define SERIES_MAX 4096
#define SERIES_TREND_MIN 6 /* below, there is no trend */

struct series {
	uint32_t n, step, skipped; /* every step-th value is kept; doubled whenever the room is full */
	float values[SERIES_MAX];
};

void series_add(struct series *s, double value);
double series_median(const struct series *s); /* NAN: empty */
/* Median of the last third against the first's, -0.1: a tenth less. false: too few. */
bool series_trend(const struct series *s, double *change);
double values_median(const double *values, int n);
/* The value that a share of all are not above: 0.99. NAN: none. */
double values_quantile(const double *values, int n, double share);

#endif
