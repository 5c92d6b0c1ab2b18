/* SPDX-License-Identifier: Apache-2.0
 *
 * test_budget_exact.c - exactly at a limit of the probe budget, which side it is on; and who is to give where several
 * could. Around the limits: test_budget_bounds.c.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/budget/budget_samples.h"

#define SECOND (1000 * MS)

static const struct budget_cfg of_node = { .price_ns = PRICE_NS, .node_ppm = 10000 };

static int teardown(void **state)
{
	(void)state;
	budget_rules_free(g);
	return 0;
}

/* Process 0 pays that much for so long. */
static int pays(enum probe_group group, double budgets, uint64_t for_ns)
{
	load_add(0, group, budgets, for_ns);
	return sample_at(for_ns);
}

/* On average all of the budget, in half of the samples above it. */
static void the_mean_may_be_all_of_it(void **state)
{
	(void)state;
	begin(&one_percent, 1);
	sample_at(QUARTER);
	for (int i = 0; i < 30; i++) {
		assert_int_equal(pays(PROBES_POLLS, 0.5, 8 * SECOND), 0);
		assert_int_equal(pays(PROBES_POLLS, 1.5, 4 * SECOND), 0);
	}
}

/* Below half of the budget is calm, half of it is not: what went stays away. The process' own, or that of the node. */
static void half_is_not_calm(void **state)
{
	(void)state;
	for (int node = 0; node < 2; node++) {
		for (int below = 0; below < 2; below++) {
			double rest = below ? 0.48 : 0.5;
			int n = 0, backs = 0;

			begin(node ? &of_node : &one_percent, 1);
			sample_at(QUARTER);
			for (int i = 0; i < 5 && !n; i++) {
				load_add(0, PROBES_NEEDED, rest, QUARTER);
				n = pays(PROBES_POLLS, 4, QUARTER);
			}
			assert_int_equal(n, 1);
			assert_true(got[0].what == BUDGET_SHED && got[0].of_node == node);
			for (int i = 0; i < 20; i++)
				backs += pays(PROBES_NEEDED, rest, 8 * SECOND);
			assert_int_equal(backs, below);
			budget_rules_free(g);
		}
	}
	g = NULL;
}

/* All of the budget is within it, half of it is not below half. */
static void admission(void **state)
{
	static const struct {
		double budgets;
		int after; /* samples between two admissions */
	} cases[] = { { 0.48, 1 }, { 0.5, 4 }, { 1, 4 } };

	(void)state;
	for (int node = 0; node < 2; node++)
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			int before = 0, last = 0;

			begin(node ? &of_node : &one_percent, 1);
			at[0].missing = BUDGET_HELD;
			sample_at(QUARTER);
			for (int k = 1; k <= 10; k++) {
				if (!pays(PROBES_NEEDED, cases[i].budgets, QUARTER))
					continue;
				assert_int_equal(got[0].what, BUDGET_BACK);
				before = last;
				last = k;
			}
			assert_true(before);
			if (cases[i].after != 1)
				assert_int_equal(last - before, cases[i].after);
			budget_rules_free(g);
		}
	g = NULL;
}

/* RDMA posts are not placed by group: that a process lacks them is no reason to put anything in. */
static void posts_are_not_admitted(void **state)
{
	(void)state;
	begin(&one_percent, 1);
	at[0].missing = 1u << PROBES_POSTS;
	for (int i = 0; i < 300; i++)
		assert_int_equal(pays(PROBES_NEEDED, 0.1, QUARTER), 0);
}

/* Two samples of one time say nothing of a rate: it holds after them as before. */
static void the_same_time_twice(void **state)
{
	(void)state;
	begin(&one_percent, 1);
	sample_at(QUARTER);
	assert_int_equal(quarter_of(PROBES_POLLS, 0.1), 0);
	assert_int_equal(sample_at(0), 0);
	assert_int_equal(goes_in(PROBES_POLLS, 5, QUARTER, 5), 3);
	assert_int_equal(got[0].group, PROBES_POLLS);
}

/* What was paid in the last seconds is more than what is paid now: an order says the mean. */
static void rates_of_the_mean(void **state)
{
	int n = 0;

	(void)state;
	begin(&one_percent, 1);
	sample_at(QUARTER);
	for (; n < 64; n++)
		assert_int_equal(quarter_of(PROBES_NEEDED, 0.4), 0); /* 1,000 hits a second */
	at[0].missing = 1u << PROBES_CALLS;
	assert_int_equal(sample_at(QUARTER), 1);
	assert_int_equal(got[0].hits_per_s, 4000 * (1 - pow(31 / 32.0, n)) * 31 / 32 + 0.5);
	assert_int_equal(got[0].hit_ns, 1000);
}

/* It calls less than before, then more, as often as the highest did: that one had the peak first. */
static void the_first_has_the_peak(void **state)
{
	(void)state;
	begin(&one_percent, 2);
	sample_at(QUARTER);
	hits_add(0, PROBES_POLLS, 20, 100);
	hits_add(1, PROBES_POLLS, 10, 100);
	sample_at(QUARTER);
	hits_add(1, PROBES_POLLS, 30, 100);
	sample_at(QUARTER);
	assert_int_equal(budget_sums(g)->peak_tgid, 100);
}

/* New limits hold from the next sample on. */
static void limits_change(void **state)
{
	(void)state;
	begin(&one_percent, 1);
	assert_int_equal(goes_in(PROBES_POLLS, 1, QUARTER, 40), 0);
	budget_limits(g, 5000, 0);
	assert_int_equal(goes_in(PROBES_POLLS, 1, QUARTER, 5), 3);
	assert_int_equal(got[0].budget_ppm, 5000);
	budget_rules_free(g);

	begin(&one_percent, 1);
	assert_int_equal(goes_in(PROBES_POLLS, 1, QUARTER, 40), 0);
	budget_limits(g, 0, 5000);
	assert_int_equal(goes_in(PROBES_POLLS, 1, QUARTER, 5), 4);
	assert_true(got[0].of_node && got[0].budget_ppm == 5000);
}

/* A group that is out is passed over, those behind it count. */
static void what_is_out_hides_nothing(void **state)
{
	(void)state;
	begin(&one_percent, 1);
	assert_int_equal(goes_in(PROBES_CALLS, 5, QUARTER, 5), 3);
	assert_int_equal(got[0].group, PROBES_CALLS);
	for (int i = 0; i < 4; i++)
		assert_int_equal(quarter_of(PROBES_NEEDED, 0.1), 0);
	assert_int_equal(goes_in(PROBES_POLLS, 5, QUARTER, 5), 3);
	assert_int_equal(got[0].group, PROBES_POLLS);
}

/* --- who gives --- */

/* The one that pays most could only give all; another has a group to give and keeps the rest. */
static void first_who_keeps_something(void **state)
{
	(void)state;
	begin(&of_node, 2);
	sample_at(QUARTER);
	for (int i = 0; i < 3; i++) {
		load_add(0, PROBES_NEEDED, 0.9, QUARTER);
		load_add(1, PROBES_POLLS, 0.8, QUARTER);
		assert_int_equal(sample_at(QUARTER), i == 2);
	}
	assert_true(got[0].what == BUDGET_SHED && got[0].tgid == 101 && got[0].group == PROBES_POLLS);
}

/* Its new group costs nothing: it does not go because another process is over the budget of all. */
static void who_pays_nothing_gives_nothing(void **state)
{
	(void)state;
	begin(&of_node, 2);
	at[0].missing = 1u << PROBES_CALLS;
	sample_at(QUARTER);
	assert_int_equal(sample_at(QUARTER), 1);
	assert_true(got[0].what == BUDGET_BACK && got[0].tgid == 100);
	for (int i = 0; i < 4; i++) {
		load_add(1, PROBES_POLLS, 3, QUARTER);
		assert_int_equal(sample_at(QUARTER), i == 3);
	}
	assert_true(got[0].what == BUDGET_SHED && got[0].tgid == 101);
}

/* What an ended process paid is no part of what those pay that are left. */
static void the_ended_pay_nothing(void **state)
{
	(void)state;
	begin(&of_node, 2);
	sample_at(QUARTER);
	for (int i = 0; i < 3; i++) {
		load_add(0, PROBES_POLLS, 0.9, QUARTER);
		assert_int_equal(sample_at(QUARTER), 0);
	}
	at[0] = at[1];
	n_procs = 1;
	for (int i = 0; i < 10; i++)
		assert_int_equal(quarter_of(PROBES_POLLS, 0.9), 0);
}

/* All went; what is needed is back, on trial, above half of the budget: the next comes a second later. */
static void who_comes_back_is_measured_first(void **state)
{
	int n = 0;

	(void)state;
	begin(&one_percent, 1);
	assert_int_equal(goes_in(PROBES_NEEDED, 5, QUARTER, 3), 3);
	assert_int_equal(got[0].what, BUDGET_WATCH);
	for (int i = 0; i < 300 && !n; i++)
		n = sample_at(QUARTER);
	assert_true(n == 1 && got[0].what == BUDGET_BACK && got[0].group == PROBES_NEEDED);
	for (int i = 1; i <= 4; i++)
		assert_int_equal(quarter_of(PROBES_NEEDED, 0.6), i == 4);
	assert_int_equal(got[0].group, PROBES_CALLS);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_teardown(f, teardown)
	const struct CMUnitTest tests[] = {
		TEST(the_mean_may_be_all_of_it),
		TEST(half_is_not_calm),
		TEST(admission),
		TEST(posts_are_not_admitted),
		TEST(the_same_time_twice),
		TEST(rates_of_the_mean),
		TEST(the_first_has_the_peak),
		TEST(limits_change),
		TEST(what_is_out_hides_nothing),
		TEST(first_who_keeps_something),
		TEST(who_pays_nothing_gives_nothing),
		TEST(the_ended_pay_nothing),
		TEST(who_comes_back_is_measured_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
