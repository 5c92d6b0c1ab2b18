/* SPDX-License-Identifier: Apache-2.0
 *
 * test_tcp_past.c - what is kept of a path's rounds: the newest five, and those before them as how it usually is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/network/tcp_past.h"

static struct tcp_past past;

static int setup(void **state)
{
	(void)state;
	past = (struct tcp_past){ 0 };
	return 0;
}

static void round_of(double rtt_us, double busy_us, double bytes, bool habit)
{
	struct tcp_round r = { rtt_us, busy_us, bytes, { 10 * rtt_us, 20 * rtt_us } };

	tcp_past_take(&past, r, habit);
}

static void the_newest_five_are_now(void **state)
{
	(void)state;
	assert_true(tcp_past_busy_now_us(&past) == 0 && tcp_past_cost_now(&past) == 0);
	for (int i = 1; i <= 5; i++) {
		round_of(100, 10, 1000, true);
		assert_true(tcp_past_busy_now_us(&past) == 10 * i);
		assert_true(tcp_past_cost_now(&past) == 0.01);
	}
	for (int i = 0; i < 3; i++)
		round_of(100, 20, 1000, true);
	assert_true(tcp_past_busy_now_us(&past) == 80);
	assert_true(tcp_past_cost_now(&past) == 0.016);
	assert_true(past.n_before == 3);
}

static void eight_rounds_before_are_enough_to_know_it(void **state)
{
	(void)state;
	for (int i = 0; i < 12; i++)
		round_of(100, 10, 1000, true);
	assert_false(tcp_past_known(&past));
	round_of(100, 10, 1000, true);
	assert_true(tcp_past_known(&past));
}

/* While it is slow nothing is learnt of how it usually is. */
static void what_is_no_habit_is_not_kept(void **state)
{
	(void)state;
	for (int i = 0; i < 13; i++)
		round_of(100, 10, 1000, true);
	for (int i = 0; i < 20; i++)
		round_of(900, 50, 1000, false);
	assert_int_equal(past.n_before, 8);
	assert_true(tcp_past_rtt_us(&past) == 100);
	assert_true(tcp_past_cost(&past) == 0.01);
	assert_true(tcp_past_cost_now(&past) == 0.05);
}

static void round_trips_before(void **state)
{
	(void)state;
	assert_true(tcp_past_rtt_us(&past) == 0 && tcp_past_rtt_most_us(&past) == 0);
	for (int i = 1; i <= 9; i++)
		round_of(10 * i, 10, 1000, true);
	for (int i = 0; i < 5; i++)
		round_of(5, 10, 1000, true);
	assert_true(tcp_past_rtt_us(&past) == 50);
	assert_true(tcp_past_rtt_most_us(&past) == 90);
	assert_true(tcp_past_comes(&past, 0) == 500);
	assert_true(tcp_past_comes(&past, 1) == 1000);
}

static void only_sixty_four_before_count(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++)
		round_of(900, 90, 1000, true);
	for (int i = 0; i < 64 + 5; i++)
		round_of(100, 10, 1000, true);
	assert_true(tcp_past_rtt_most_us(&past) == 100);
	assert_true(tcp_past_comes(&past, 0) == 1000);
}

/* As many rounds as are new, the worst of them. */
static void the_worst_five_before(void **state)
{
	(void)state;
	assert_true(tcp_past_cost_most(&past) == 0);
	for (int i = 0; i < 20; i++)
		round_of(100, i >= 8 && i < 13 ? 60 : 10, 1000, true);
	assert_true(tcp_past_cost_most(&past) == 0.06);
	assert_true(tcp_past_cost(&past) > 0.02 && tcp_past_cost(&past) < 0.03);
	setup(state);
	for (int i = 0; i < 9; i++)
		round_of(100, 10, 1000, true);
	assert_true(tcp_past_cost_most(&past) == 0); /* four are too few */
}

static void where_nothing_moved_there_is_no_cost(void **state)
{
	(void)state;
	for (int i = 0; i < 12; i++)
		round_of(100, 10, 0, true);
	assert_true(tcp_past_cost(&past) == 0 && tcp_past_cost_most(&past) == 0 && tcp_past_cost_now(&past) == 0);
	assert_true(tcp_past_busy_now_us(&past) == 50);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup)
	const struct CMUnitTest tests[] = {
		TEST(the_newest_five_are_now),
		TEST(eight_rounds_before_are_enough_to_know_it),
		TEST(what_is_no_habit_is_not_kept),
		TEST(round_trips_before),
		TEST(only_sixty_four_before_count),
		TEST(the_worst_five_before),
		TEST(where_nothing_moved_there_is_no_cost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
