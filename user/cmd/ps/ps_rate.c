/* SPDX-License-Identifier: Apache-2.0
 *
 * ps_rate.c - see ps_rate.h.
 *
 * The samples become collectives per bin, and the lag at which that series is most like itself is the step. A layer
 * repeats within a step, but never as exactly as the whole step does.
 */
#include "cmd/ps/ps_rate.h"

#include <stdbool.h>
#include <stdlib.h>

#define BIN_NS 2000000ull
#define BINS_MAX 1024
#define ALIKE 0.5        /* of itself: less is no pattern */
#define NEARLY_BEST 0.85 /* a multiple of the step is as good as the step, so the first good lag is it */
#define REPEATED 3
#define SMOOTHED 2

double rate_of_collectives(const struct rate_sample *s, size_t n)
{
	if (n < 2 || s[n - 1].ns <= s[0].ns)
		return 0;
	return (s[n - 1].count - s[0].count) * 1e9 / (s[n - 1].ns - s[0].ns);
}

/* Fills the bins with what happened in them, less the mean. A sample may have come late: what it shows is spread over
 * the bins since the one before. */
static size_t bins_fill(const struct rate_sample *s, size_t n, double *bins)
{
	size_t n_bins = n < 2 ? 0 : (s[n - 1].ns - s[0].ns) / BIN_NS;
	double sum = 0;

	n_bins = n_bins < BINS_MAX ? n_bins : BINS_MAX;
	for (size_t i = 0; i < n_bins; i++)
		bins[i] = 0;
	for (size_t i = 1; i < n; i++) {
		size_t from = (s[i - 1].ns - s[0].ns) / BIN_NS, to = (s[i].ns - s[0].ns) / BIN_NS;

		for (size_t k = from; k < n_bins && (k < to || k == from); k++)
			bins[k] += (double)(s[i].count - s[i - 1].count) / (to > from ? to - from : 1);
	}
	for (size_t i = 0; i < n_bins; i++)
		sum += bins[i];
	for (size_t i = 0; i < n_bins; i++)
		bins[i] -= sum / n_bins;
	return n_bins;
}

/* How alike the series is to itself, so many bins later: 1 the same, 0 not at all. */
static double alike(const double *bins, size_t n, size_t lag)
{
	double product = 0, a = 0, b = 0;

	for (size_t i = 0; i + lag < n; i++) {
		product += bins[i] * bins[i + lag];
		a += bins[i] * bins[i];
		b += bins[i + lag] * bins[i + lag];
	}
	return a > 0 && b > 0 ? product / (a > b ? a : b) : 0;
}

/* Neighbouring bins count as one: a burst may lie on a border. */
static void bins_smooth(double *bins, size_t n)
{
	double before = 0, now;

	for (size_t i = 0; i < n; i++) {
		now = bins[i];
		bins[i] = (before + 2 * now + (i + 1 < n ? bins[i + 1] : 0)) / 4;
		before = now;
	}
}

static bool is_peak(const double *by_lag, size_t lag, size_t n)
{
	return lag > 1 && lag + 1 < n && by_lag[lag] >= by_lag[lag - 1] && by_lag[lag] >= by_lag[lag + 1];
}

/* The last multiple of the step that still is a peak measures it best. */
static double refined(const double *by_lag, size_t lag, size_t n)
{
	double step = lag;

	for (size_t k = 2;; k++) {
		size_t near = step * k + 0.5, best = 0;

		for (size_t at = near - (near > 1); at <= near + 1; at++)
			if (is_peak(by_lag, at, n) && (!best || by_lag[at] > by_lag[best]))
				best = at;
		if (!best || by_lag[best] < ALIKE)
			return step;
		step = (double)best / k;
	}
}

double rate_of_steps(const struct rate_sample *samples, size_t n_samples)
{
	double bins[BINS_MAX], by_lag[BINS_MAX / REPEATED + 1], best = 0;
	size_t n_bins = bins_fill(samples, n_samples, bins), n = n_bins / REPEATED;

	for (int i = 0; i < SMOOTHED; i++)
		bins_smooth(bins, n_bins);
	for (size_t lag = 0; lag < n; lag++)
		by_lag[lag] = alike(bins, n_bins, lag);
	for (size_t lag = 2; lag < n; lag++)
		if (is_peak(by_lag, lag, n) && by_lag[lag] > best)
			best = by_lag[lag];
	for (size_t lag = 2; best >= ALIKE && lag < n; lag++)
		if (is_peak(by_lag, lag, n) && by_lag[lag] >= NEARLY_BEST * best)
			return 1e9 / (refined(by_lag, lag, n) * BIN_NS);
	return 0;
}
