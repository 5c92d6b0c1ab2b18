/* SPDX-License-Identifier: Apache-2.0
 *
 * test_ps_rate.c - steps a second from counts of collectives: bursts, layers within steps, jitter, late samples, and
 * what has no pattern.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cmd/ps/ps_rate.h"

#define MS 1000000ull
#define WINDOW_MS 2000
#define N 1000

static struct rate_sample samples[N];
static unsigned seed;

static unsigned draw(unsigned below)
{
	seed = seed * 1103515245u + 12345u;
	return (seed >> 16) % below;
}

/* Collectives entered until `ms` by a job whose steps have `layers` groups of 2 in their first half, and 4 at the end.
 */
static uint64_t entered(double ms, double step_ms, int layers, double jitter)
{
	uint64_t steps = ms / step_ms, n = steps * (2 * layers + 4);
	double in = ms - steps * step_ms - jitter;

	for (int i = 0; i < layers; i++)
		n += in > (i + 1) * step_ms * 0.5 / (layers + 1) ? 2 : 0;
	return n + (in > step_ms * 0.9 ? 4 : 0);
}

/* Sampled every 2 ms, now and then later. */
static size_t play(double step_ms, int layers, unsigned jitter_ms)
{
	size_t n = 0;
	unsigned at = 0;

	seed = 1;
	for (; at < WINDOW_MS && n < N; at += 2 + (draw(10) ? 0 : 7)) {
		uint64_t count = 1000 + entered(at, step_ms, layers, jitter_ms ? draw(jitter_ms) : 0);

		count = n && count < samples[n - 1].count ? samples[n - 1].count : count;
		samples[n++] = (struct rate_sample){ .ns = 77777777 + at * MS, .count = count };
	}
	return n;
}

static void steps_are_counted(void **state)
{
	static const double steps_ms[] = { 25, 34, 50, 83, 120, 250, 400, 600 };

	(void)state;
	for (size_t i = 0; i < sizeof(steps_ms) / sizeof(steps_ms[0]); i++)
		for (int layers = 0; layers <= 12; layers += 4) {
			double want = 1000 / steps_ms[i], got = rate_of_steps(samples, play(steps_ms[i], layers, 3));

			if (got < want * 0.93 || got > want * 1.07)
				fail_msg("steps of %g ms with %d layers: %g instead of %g a second", steps_ms[i],
					 layers, got, want);
		}
}

static void collectives_are_counted(void **state)
{
	double got;

	(void)state;
	got = rate_of_collectives(samples, play(50, 8, 0));
	if (got < 380 || got > 410)
		fail_msg("%g collectives a second instead of 400", got);
	assert_true(rate_of_collectives(samples, 1) == 0 && rate_of_collectives(samples, 0) == 0);
}

static void no_pattern_is_no_rate(void **state)
{
	size_t n = 0;
	uint64_t count = 0;

	(void)state;
	for (; n < N; n++) /* at random */
		samples[n] = (struct rate_sample){ .ns = n * 2 * MS, .count = count += draw(20) == 0 };
	assert_true(rate_of_steps(samples, n) == 0);
	for (n = 0; n < N; n++) /* does not move */
		samples[n] = (struct rate_sample){ .ns = n * 2 * MS, .count = 7 };
	assert_true(rate_of_steps(samples, n) == 0);
	assert_true(rate_of_collectives(samples, n) == 0);
	assert_true(rate_of_steps(samples, play(900, 4, 0)) == 0); /* twice is no repetition */
	assert_true(rate_of_steps(samples, 1) == 0 && rate_of_steps(samples, 0) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_are_counted),
		cmocka_unit_test(collectives_are_counted),
		cmocka_unit_test(no_pattern_is_no_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
