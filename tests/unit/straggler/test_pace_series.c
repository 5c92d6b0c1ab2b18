/* SPDX-License-Identifier: Apache-2.0
 *
 * test_pace_series.c - the pace by a counter that is read once a second: what a drop is, from when on, how far down,
 * and when it is over.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "detect/straggler/pace_series.h"

#define SEC 1000000000ull
#define USUAL 100 /* operations a second */

struct counter {
	struct pace_series s;
	uint64_t ns, n;
};

static void start(struct counter *c)
{
	memset(c, 0, sizeof(*c));
	c->ns = 7 * SEC;
	c->n = 1000;
	pace_add(&c->s, c->ns, c->n, true);
}

static void second(struct counter *c, int more)
{
	c->ns += SEC;
	c->n += more;
	pace_add(&c->s, c->ns, c->n, true);
}

static void seconds(struct counter *c, int n, int more)
{
	while (n-- > 0)
		second(c, more);
}

/* The same pace by steps that take several seconds: the counter jumps at the end of each. */
static void steps(struct counter *c, int n, int step_s, int per_s)
{
	for (int i = 0; i < n; i++) {
		seconds(c, step_s - 1, 0);
		second(c, step_s * per_s);
	}
}

/* Seconds at that pace until there is a drop; -1: there is none in `limit`. */
static int until_drop(struct counter *c, int per_s, int limit)
{
	for (int i = 1; i <= limit; i++) {
		second(c, per_s);
		if (c->s.width)
			return i;
	}
	return -1;
}

static int until_over(struct counter *c, int per_s, int limit)
{
	for (int i = 1; i <= limit; i++) {
		second(c, per_s);
		if (!c->s.width)
			return i;
	}
	return -1;
}

/* 15 windows of the past, and five seconds of a drop. */
static void test_how_much_past(void **state)
{
	static const struct {
		int past_s, after_s;
	} cases[] = { { 15, 5 }, { 14, 6 }, { 16, 5 }, { 400, 5 } };

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct counter c;
		uint64_t begin;

		start(&c);
		seconds(&c, cases[i].past_s, USUAL);
		begin = c.ns;
		assert_int_equal(until_drop(&c, 50, 20), cases[i].after_s);
		assert_int_equal(c.s.since_ns, begin + (cases[i].after_s - 5) * SEC);
		assert_int_equal(c.s.width, 1);
		assert_true(c.s.usual == USUAL && c.s.slow == 50);
		assert_true(pace_dropped(&c.s, c.ns));
	}
}

/* Steps that take 25 % longer are no drop yet; a second in which nothing was entered is a pause. */
static void test_how_far_down(void **state)
{
	static const struct {
		int per_s, after_s;
	} cases[] = { { 80, -1 }, { 79, 5 }, { 1, 5 }, { 0, -1 }, { 100, -1 }, { 130, -1 } };

	(void)state;
	for (size_t i = 0; i < 6; i++) {
		struct counter c;

		start(&c);
		seconds(&c, 60, USUAL);
		assert_int_equal(until_drop(&c, cases[i].per_s, 12), cases[i].after_s);
		assert_int_equal(pace_dropped(&c.s, c.ns), cases[i].after_s > 0);
	}
}

/* Each of the five seconds is slow: one at the usual pace, or one pause among them, and it is none. */
static void test_all_of_it_is_slow(void **state)
{
	static const int odd[] = { USUAL, 80, 0 };

	(void)state;
	for (size_t i = 0; i < 3; i++)
		for (int at = 0; at < 5; at++) {
			struct counter c;

			start(&c);
			seconds(&c, 20, USUAL); /* too little for windows of two seconds */
			seconds(&c, at, 50);
			second(&c, odd[i]);
			seconds(&c, 4 - at, 50);
			assert_int_equal(c.s.width, 0);
		}
}

/* A past as uneven as that says nothing: two of 15 windows are its lowest tenth. */
static void test_an_uneven_past(void **state)
{
	static const struct {
		int odd, per_s, is_drop;
	} cases[] = { { 2, 85, 1 }, { 2, 84, 0 }, { 1, 84, 1 }, { 1, 1, 1 },
		      { 3, 84, 0 }, { 5, 0, 1 },  { 6, 0, 0 },  { 7, 130, 1 } };

	(void)state;
	for (size_t i = 0; i < 8; i++) {
		struct counter c;

		start(&c);
		seconds(&c, cases[i].odd, cases[i].per_s);
		seconds(&c, 15 - cases[i].odd, USUAL);
		seconds(&c, 5, 50);
		assert_int_equal(!!c.s.width, cases[i].is_drop);
		if (c.s.width)
			assert_true(c.s.usual == USUAL);
	}
}

/* Seconds in which nothing was entered are left out before the middle is taken. */
static void test_pauses_are_no_past(void **state)
{
	struct counter c;

	(void)state;
	start(&c);
	seconds(&c, 5, 0);
	seconds(&c, 6, USUAL);
	seconds(&c, 4, 110);
	seconds(&c, 5, 50);
	assert_int_equal(c.s.width, 1);
	assert_true(c.s.usual == USUAL);
}

/* The last 60 windows are its past: what was before is forgotten. */
static void test_an_old_past(void **state)
{
	(void)state;
	for (int usual_s = 53; usual_s <= 54; usual_s++) {
		struct counter c;

		start(&c);
		seconds(&c, 40, 30);
		seconds(&c, usual_s, USUAL);
		seconds(&c, 5, 50);
		assert_int_equal(!!c.s.width, usual_s == 54);
	}
}

/* A step takes several seconds: windows as long as it, three of them slow. Longer than 16 s no window is. */
static void test_long_steps(void **state)
{
	static const struct {
		int step_s, slow_steps;
	} cases[] = { { 1, 5 }, { 2, 3 }, { 4, 3 }, { 8, 3 }, { 16, 3 }, { 32, 0 } };

	(void)state;
	for (size_t i = 0; i < 6; i++) {
		struct counter c;
		uint64_t begin;

		start(&c);
		steps(&c, 400 / cases[i].step_s, cases[i].step_s, USUAL);
		begin = c.ns;
		steps(&c, cases[i].slow_steps ? cases[i].slow_steps - 1 : 8, cases[i].step_s, 60);
		assert_int_equal(c.s.width, 0);
		if (!cases[i].slow_steps)
			continue;
		steps(&c, 1, cases[i].step_s, 60);
		assert_int_equal(c.s.width, cases[i].step_s);
		assert_int_equal(c.s.since_ns, begin);
		assert_true(fabs(c.s.usual - USUAL) < 1e-9 && fabs(c.s.slow - 60) < 1e-9);
	}
}

/* 15 windows of each width, and the three slow ones behind them, have to be in what is kept. */
static void test_a_short_past_of_long_steps(void **state)
{
	(void)state;
	for (int past = 14; past <= 15; past++) {
		struct counter c;

		start(&c);
		steps(&c, past, 16, USUAL);
		steps(&c, 3, 16, 60);
		assert_int_equal(c.s.width, past == 15 ? 16 : 0);
	}
}

/* Samples come more often than they are needed, or not for seconds, or of a counter that began anew. */
static void test_which_samples_count(void **state)
{
	static const struct {
		uint64_t after_ns;
		int more;
		uint64_t n_points;
	} cases[] = { { SEC * 9 / 10, 90, 22 }, { SEC * 9 / 10 - 1, 90, 21 },
		      { 3 * SEC, 300, 22 },     { 3 * SEC + 1, 300, 1 },
		      { SEC, 0, 22 },           { SEC, -1, 1 } };

	(void)state;
	for (size_t i = 0; i < 6; i++) {
		struct counter c;

		start(&c);
		seconds(&c, 20, USUAL);
		pace_add(&c.s, c.ns + cases[i].after_ns, c.n + cases[i].more, true);
		assert_int_equal(c.s.n_points, cases[i].n_points);
		assert_int_equal(c.s.width, 0);
	}
}

static void test_no_drop_begins_unasked(void **state)
{
	struct counter c;

	(void)state;
	start(&c);
	seconds(&c, 60, USUAL);
	for (int i = 0; i < 10; i++)
		pace_add(&c.s, c.ns += SEC, c.n += 50, false);
	assert_int_equal(c.s.width, 0);
	assert_false(pace_dropped(&c.s, c.ns));
}

static void dropped(struct counter *c)
{
	start(c);
	seconds(c, 60, USUAL);
	assert_int_equal(until_drop(c, 50, 5), 5);
}

/* Three points at 90 % of the usual pace end it, one slow one between them and they count anew; pauses do not. */
static void test_over(void **state)
{
	struct counter c;

	(void)state;
	dropped(&c);
	assert_int_equal(until_over(&c, 89, 20), -1);
	assert_int_equal(until_over(&c, 90, 20), 3);
	assert_int_equal(c.s.n_points, 0);
	assert_int_equal(c.s.since_ns, 0);
	assert_false(pace_dropped(&c.s, c.ns));
	dropped(&c);
	seconds(&c, 2, USUAL);
	second(&c, 50);
	assert_int_equal(until_over(&c, USUAL, 20), 3);
	dropped(&c);
	seconds(&c, 2, USUAL);
	seconds(&c, 2, 0);
	assert_int_equal(until_over(&c, USUAL, 20), 1);
}

/* The slow pace follows what comes, a tenth of the way a second; not what is over, and not a pause. */
static void test_the_pace_as_of_now(void **state)
{
	struct counter c;

	(void)state;
	dropped(&c);
	second(&c, 70);
	assert_true(fabs(c.s.slow - 52) < 1e-9);
	second(&c, 0);
	second(&c, 95);
	assert_true(fabs(c.s.slow - 52) < 1e-9);
	second(&c, 32);
	assert_true(fabs(c.s.slow - 50) < 1e-9);
	assert_true(c.s.usual == USUAL);
}

static void drop_of(struct counter *c, int lasts_s, bool explained)
{
	seconds(c, 60, USUAL);
	assert_int_equal(until_drop(c, 50, 5), 5);
	c->s.explained = explained;
	seconds(c, lasts_s - 8, 50);
	assert_int_equal(until_over(c, USUAL, 3), 3);
}

/* What was over by itself is a habit: the next has to last twice as long as the longest. What somebody was to blame
 * for, and what lasted for ten minutes, is none. */
static void test_a_habit(void **state)
{
	static const struct {
		int first_s, second_s;
		bool explained;
		int said_after_s;
	} cases[] = { { 20, 10, false, 40 },
		      { 10, 20, false, 40 },
		      { 20, 20, true, 5 },
		      { 599, 8, false, 1198 },
		      { 600, 8, false, 16 } };

	(void)state;
	for (size_t i = 0; i < 5; i++) {
		struct counter c;
		int said = 5;

		start(&c);
		drop_of(&c, cases[i].first_s, cases[i].explained);
		drop_of(&c, cases[i].second_s, cases[i].explained);
		seconds(&c, 60, USUAL);
		assert_int_equal(until_drop(&c, 50, 5), 5);
		for (; !pace_dropped(&c.s, c.ns); said++)
			second(&c, 50);
		assert_int_equal(said, cases[i].said_after_s);
		assert_false(cases[i].said_after_s > 5 && pace_dropped(&c.s, c.ns - 1));
	}
}

/* By half an hour it is how the job is. */
static void test_it_lasts(void **state)
{
	struct counter c;

	(void)state;
	dropped(&c);
	seconds(&c, 1795, 50);
	assert_int_equal(c.s.width, 1);
	second(&c, 50);
	assert_int_equal(c.s.width, 0);
	assert_int_equal(c.s.longest_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_how_much_past),
		cmocka_unit_test(test_how_far_down),
		cmocka_unit_test(test_all_of_it_is_slow),
		cmocka_unit_test(test_an_uneven_past),
		cmocka_unit_test(test_pauses_are_no_past),
		cmocka_unit_test(test_an_old_past),
		cmocka_unit_test(test_long_steps),
		cmocka_unit_test(test_a_short_past_of_long_steps),
		cmocka_unit_test(test_which_samples_count),
		cmocka_unit_test(test_no_drop_begins_unasked),
		cmocka_unit_test(test_over),
		cmocka_unit_test(test_the_pace_as_of_now),
		cmocka_unit_test(test_a_habit),
		cmocka_unit_test(test_it_lasts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
