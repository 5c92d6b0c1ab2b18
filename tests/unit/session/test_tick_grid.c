// SPDX-License-Identifier: Apache-2.0
/* tick_grid.c: a late turn of the detectors makes no later one late; none is lost by a little, and two are never close
 * together. That the loop has time for it beside a flood: tests/hostile/test_flood.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "session/parts/tick_grid.h"

#define MS 1000000ull
#define PERIOD_MS 250
#define BEGIN_MS 1000

static struct tick_grid grid;
static unsigned int taken_ms[64], n_taken;

/* The loop has turns, which end at these times of a grid that begins at 0. */
static void turns(const unsigned int *end_ms, unsigned int n)
{
	n_taken = 0;
	tick_grid_begin(&grid, PERIOD_MS * MS, BEGIN_MS * MS);
	for (unsigned int i = 0; i < n; i++) {
		uint64_t now_ns = (BEGIN_MS + end_ms[i]) * MS;

		if (!tick_grid_due(&grid, now_ns))
			continue;
		tick_grid_take(&grid, now_ns);
		taken_ms[n_taken++] = end_ms[i];
	}
}

static void expect(const unsigned int *ms, unsigned int n)
{
	assert_int_equal(n_taken, n);
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(taken_ms[i], ms[i]);
}

#define TURNS(...) turns((const unsigned int[]){ __VA_ARGS__ }, sizeof((int[]){ __VA_ARGS__ }) / sizeof(int))
#define EXPECT(...) expect((const unsigned int[]){ __VA_ARGS__ }, sizeof((int[]){ __VA_ARGS__ }) / sizeof(int))

static void on_time(void **state)
{
	(void)state;
	TURNS(125, 250, 375, 500, 625, 750);
	EXPECT(250, 500, 750);
}

/* From the time of the last one, that at 500 would come at 625. */
static void a_late_one_delays_no_other(void **state)
{
	(void)state;
	TURNS(130, 310, 380, 500, 625, 750, 880, 1000);
	EXPECT(310, 500, 750, 1000);
}

static void half_a_period_apart(void **state)
{
	(void)state;
	TURNS(490, 500, 610, 620, 760);
	EXPECT(490, 620, 760);
	TURNS(376, 499, 500, 502, 740, 750);
	EXPECT(376, 502, 750);
}

/* As after a host was suspended. */
static void those_missed_are_not_made_up_for(void **state)
{
	(void)state;
	TURNS(250, 60100, 60125, 60250, 60375, 60500);
	EXPECT(250, 60100, 60250, 60500);
}

static void one_between(void **state)
{
	(void)state;
	tick_grid_begin(&grid, PERIOD_MS * MS, 0);
	tick_grid_take(&grid, 100 * MS);
	assert_false(tick_grid_due(&grid, 249 * MS));
	assert_true(tick_grid_due(&grid, 250 * MS));
	tick_grid_take(&grid, 250 * MS);
	tick_grid_take(&grid, 400 * MS);
	assert_false(tick_grid_due(&grid, 524 * MS));
	assert_true(tick_grid_due(&grid, 525 * MS));
}

static void other_work_waits_from_a_quarter_on(void **state)
{
	(void)state;
	tick_grid_begin(&grid, PERIOD_MS * MS, 0);
	assert_int_equal(tick_grid_latest_ns(&grid), 312500000);
	tick_grid_take(&grid, 490 * MS);
	assert_int_equal(tick_grid_latest_ns(&grid), 677500000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(on_time),
		cmocka_unit_test(a_late_one_delays_no_other),
		cmocka_unit_test(half_a_period_apart),
		cmocka_unit_test(those_missed_are_not_made_up_for),
		cmocka_unit_test(one_between),
		cmocka_unit_test(other_work_waits_from_a_quarter_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
