/* SPDX-License-Identifier: Apache-2.0
 *
 * test_budget_bounds.c - the limits of the probe budget, sample by sample: what is still within them, what is beyond,
 * and what an order says. Loads are in budgets: one percent of a core. Whole stories: test_probe_budget.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/budget/budget_samples.h"

/* --- over the budget --- */

static void how_soon_by_how_much(void **state)
{
	static const struct {
		double budgets;
		uint64_t every_ms;
		int sample;
	} cases[] = {
		{ 1.0, 250, 0 },                    /* all of it is allowed */
		{ 1.4, 250, 40 },                   /* the mean of eight seconds: 1.4 * (1 - (31/32)^n) is above 1 */
		{ 1.5, 250, 35 }, { 1.52, 250, 3 }, /* quick */
		{ 30, 250, 3 },   { 30, 248, 3 },   /* 744 ms */
		{ 30, 246, 4 },                     /* three samples are 738 ms */
		{ 30, 185, 4 },                     /* exactly 740 */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int sample;

		begin(&one_percent, 1);
		sample = goes_in(PROBES_POLLS, cases[i].budgets, cases[i].every_ms * MS, 300);
		if (sample != cases[i].sample)
			fail_msg("%.2f budgets every %d ms: sample %d", cases[i].budgets, (int)cases[i].every_ms,
				 sample);
		budget_rules_free(g);
	}
}

/* Twelve of 32 samples above the budget, and more than it on average, where none counts for more than four. */
static void what_spikes_may_do(void **state)
{
	static const struct {
		const char
			*samples; /* 32, again and again: H 20 budgets, with pauses that make them spikes; o 1.2, e 1 */
		int sample;       /* in which something goes, 0 never */
	} cases[] = {
		{ "Ho.H..H..H..H..H..H..H..H..H....", 0 },  { "Ho.He.H..H..H..H..H..H..H..H....", 0 },
		{ "Ho.Ho.H..H..H..H..H..H..H..H....", 39 }, { "Ho..Ho..Ho..Ho..H...H...H...H...", 49 },
		{ "Ho..o..Ho...o.Ho...o..Ho..o.H...", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int sample = 0;

		begin(&one_percent, 1);
		sample_at(QUARTER);
		for (int k = 0; k < 640 && !sample; k++) {
			char c = cases[i].samples[k % 32];

			sample = quarter_of(PROBES_POLLS, c == 'H'   ? 20
							  : c == 'o' ? 1.2
							  : c == 'e' ? 1
								     : 0)
					 ? k + 1
					 : 0;
		}
		if (sample != cases[i].sample)
			fail_msg("%s: %d", cases[i].samples, sample);
		budget_rules_free(g);
	}
}

/* "1" above the limit, "." below: in which sample something goes, from 1; 0 it does not. */
static void again_and_again_is_lasting(void **state)
{
	static const struct {
		const char *what;
		int sample;
	} cases[] = { { "111", 3 },     { "1.1", 3 },   { "1.11", 3 },   { "11.", 0 },   { "11.1", 4 },
		      { "1..1..1", 0 }, { "1..11", 0 }, { "1..111", 6 }, { "1..1.1", 6 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int sample = 0;

		begin(&one_percent, 1);
		sample_at(QUARTER);
		for (int k = 0; cases[i].what[k] && !sample; k++)
			sample = quarter_of(PROBES_POLLS, cases[i].what[k] == '1' ? 2 : 0) ? k + 1 : 0;
		if (sample != cases[i].sample)
			fail_msg("%s: %d", cases[i].what, sample);
		budget_rules_free(g);
	}
}

/* A group went, and the program turns to another at once: all go. After a second of calm it is a new story. */
static void what_follows_a_cut(void **state)
{
	(void)state;
	for (int calm = 0; calm < 6; calm++) {
		int n;

		begin(&one_percent, 1);
		assert_int_equal(goes_in(PROBES_POLLS, 5, QUARTER, 3), 3);
		assert_true(got[0].what == BUDGET_SHED && got[0].group == PROBES_POLLS);
		for (int i = 0; i < calm; i++)
			assert_int_equal(quarter_of(PROBES_NEEDED, 0.01), 0);
		n = quarter_of(PROBES_CALLS, 5);
		if (calm < 4) {
			assert_int_equal(n, 1);
			assert_int_equal(got[0].what, BUDGET_WATCH);
			assert_int_equal(got[0].shed, ALL);
		} else {
			assert_int_equal(n, 0);
			assert_int_equal(quarter_of(PROBES_CALLS, 5), 0);
			assert_int_equal(quarter_of(PROBES_CALLS, 5), 1);
			assert_int_equal(got[0].what, BUDGET_SHED);
			assert_int_equal(got[0].shed, 1u << PROBES_POLLS | 1u << PROBES_CALLS);
		}
		budget_rules_free(g);
	}
}

/* What went for its mean, and then another for its mean: one by one. */
static void slow_after_slow(void **state)
{
	int i;

	(void)state;
	begin(&one_percent, 1);
	assert_int_equal(goes_in(PROBES_POLLS, 1.4, QUARTER, 60), 40);
	assert_int_equal(got[0].group, PROBES_POLLS);
	for (i = 1; i < 100 && !quarter_of(PROBES_CALLS, 1.4); i++)
		;
	assert_int_equal(i, 40);
	assert_true(got[0].what == BUDGET_SHED && got[0].group == PROBES_CALLS);
	budget_rules_free(g);
}

/* --- which group --- */

static void a_tenth_is_worth_it(void **state)
{
	(void)state;
	for (int part = 8; part <= 12; part += 2) {
		begin(&one_percent, 1);
		sample_at(QUARTER);
		for (int i = 0; i < 3; i++) {
			hits_add(0, PROBES_NEEDED, 100 - part, 1000);
			hits_add(0, PROBES_POLLS, part, 1000);
			assert_int_equal(sample_at(QUARTER), i == 2 ? part < 10 ? 1 : 2 : 0);
		}
		assert_int_equal(got[0].group, part < 10 ? PROBES_NEEDED : PROBES_POLLS);
		assert_int_equal(got[0].what, part < 10 ? BUDGET_WATCH : BUDGET_SHED);
		budget_rules_free(g);
	}
}

/* No more goes than it takes: exactly the budget may stay. */
static void what_remains_may_be_all_of_it(void **state)
{
	static const double rest[] = { 0.9, 1.0, 1.1 };

	(void)state;
	for (int k = 0; k < 3; k++) {
		begin(&one_percent, 1);
		sample_at(QUARTER);
		for (int i = 0; i < 3; i++) {
			load_add(0, PROBES_POLLS, 8, QUARTER);
			load_add(0, PROBES_CALLS, rest[k], QUARTER);
			assert_int_equal(sample_at(QUARTER), i < 2 ? 0 : rest[k] > 1 ? 2 : 1);
		}
		assert_int_equal(got[0].group, PROBES_POLLS);
		assert_true(rest[k] <= 1 || got[1].group == PROBES_CALLS);
		budget_rules_free(g);
	}
}

/* --- what an order says --- */

/* The newest rates: half of the last sample, a quarter of the one before. */
static void rates_of_a_quick_order(void **state)
{
	(void)state;
	begin(&one_percent, 1);
	sample_at(QUARTER);
	hits_add(0, PROBES_POLLS, 8000, 100); /* the first that can be compared counts whole */
	assert_int_equal(sample_at(QUARTER), 0);
	hits_add(0, PROBES_POLLS, 16000, 100);
	assert_int_equal(sample_at(QUARTER), 0);
	hits_add(0, PROBES_POLLS, 4000, 103);
	assert_int_equal(sample_at(QUARTER), 1);
	assert_int_equal(got[0].hits_per_s, 4 * (8000 / 4 + 16000 / 4 + 4000 / 2));
	assert_int_equal(got[0].node_hits_per_s, got[0].hits_per_s);
	assert_int_equal(got[0].hit_ns, 10075); /* (6000 * 10000 + 2000 * 10300) / 8000 */
	assert_int_equal(got[0].node_hit_ns, 10075);
	assert_int_equal(got[0].budget_ppm, 10000);
	assert_int_equal(budget_sums(g)->hits, 28000);
	assert_int_equal(budget_sums(g)->paid_ns, 100ull * (24000 * 100 + 4000 * 103));
	assert_int_equal(budget_sums(g)->peak_tgid, 100);
	assert_true(budget_sums(g)->peak_ns_per_s == 4e4 * 12000);
	budget_rules_free(g);
}

/* One that was high, and is nothing now: by the mean. */
static void rates_of_a_slow_order(void **state)
{
	(void)state;
	begin(&one_percent, 1);
	sample_at(QUARTER);
	for (int i = 0; i < 300; i++) {
		double mine = i % 2 ? 1.9 : 0.9;

		hits_add(0, PROBES_POLLS, (uint32_t)(mine * 250 + 0.5), 100);
		if (sample_at(QUARTER))
			break;
		assert_true(i < 299);
	}
	assert_int_equal(got[0].group, PROBES_POLLS);
	assert_int_equal(got[0].hit_ns, 10000);
	assert_in_range(got[0].hits_per_s, 1000, 1700);
	budget_rules_free(g);
}

/* Of two the one that paid most in any sample. */
static void the_peak_is_of_the_highest(void **state)
{
	(void)state;
	begin(&one_percent, 2);
	sample_at(QUARTER);
	hits_add(0, PROBES_POLLS, 10, 100);
	hits_add(1, PROBES_POLLS, 20, 100);
	sample_at(QUARTER);
	assert_int_equal(budget_sums(g)->peak_tgid, 101);
	hits_add(0, PROBES_POLLS, 30, 100);
	hits_add(1, PROBES_POLLS, 20, 100);
	sample_at(QUARTER); /* 20 each: no higher than before */
	assert_int_equal(budget_sums(g)->peak_tgid, 101);
	hits_add(0, PROBES_POLLS, 30, 100);
	sample_at(QUARTER);
	assert_int_equal(budget_sums(g)->peak_tgid, 100);
	assert_true(budget_sums(g)->peak_ns_per_s == 4 * 25 * 10000.0);
	budget_rules_free(g);
}

/* A counter that moves faster than any can was reset. */
static void what_no_counter_does(void **state)
{
	(void)state;
	begin(&one_percent, 1);
	sample_at(QUARTER);
	hits_add(0, PROBES_POLLS, 25000000, 0);
	hits_add(0, PROBES_CALLS, 25000001, 0);
	sample_at(QUARTER);
	assert_int_equal(budget_sums(g)->hits, 25000000);
	budget_rules_free(g);
}

/* --- in, and on trial --- */

/* Held groups: with every sample that is 200 ms behind the last admission, where half of the budget is free; else after
 * a second. */
static void admission(void **state)
{
	static const struct {
		uint64_t every_ms;
		double budgets;
		int after; /* samples between two admissions; 0: none */
	} cases[] = { { 250, 0.1, 1 },  { 200, 0.1, 1 },  { 190, 0.1, 2 },   { 100, 0.1, 2 },  { 250, 0.48, 1 },
		      { 250, 0.52, 4 }, { 245, 0.52, 5 }, { 1000, 0.52, 1 }, { 250, 0.96, 4 }, { 250, 1.04, 0 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int n = 0, before = 0, last = 0;

		begin(&one_percent, 1);
		at[0].missing = BUDGET_HELD;
		sample_at(cases[i].every_ms * MS);
		for (int k = 1; k <= 12 && n < 3; k++) {
			load_add(0, PROBES_NEEDED, cases[i].budgets, cases[i].every_ms * MS);
			if (!sample_at(cases[i].every_ms * MS))
				continue;
			assert_true(got[0].what == BUDGET_BACK && got[0].quiet && !got[0].shed);
			before = last;
			last = k;
			n++;
		}
		if (cases[i].after ? n < 3 || last - before != cases[i].after : n)
			fail_msg("%d ms, %.2f budgets: %d admissions, %d samples apart", (int)cases[i].every_ms,
				 cases[i].budgets, n, last - before);
		assert_int_equal(budget_sums(g)->n_back, 0);
		budget_rules_free(g);
	}
}

/* Nothing was called yet: an order says so. */
static void admitted_before_any_call(void **state)
{
	(void)state;
	begin(&one_percent, 1);
	at[0].missing = 1u << PROBES_CALLS;
	sample_at(QUARTER);
	assert_int_equal(sample_at(QUARTER), 1);
	assert_true(!got[0].hits_per_s && !got[0].node_hits_per_s && !got[0].hit_ns && !got[0].node_hit_ns);
	assert_int_equal(got[0].budget_ppm, 10000);
	assert_false(got[0].of_node);
	budget_rules_free(g);
}

/* On trial for a second: it goes as soon as the process paid more than a second's budget in it, or more than that of
 * the time that it took until the sample behind. */
static void trial(void **state)
{
	static const struct {
		uint64_t every_ms;
		double budgets;
		int sample; /* in which it goes; 0 it stays */
	} cases[] = { { 250, 0.99, 0 }, { 250, 1.02, 4 }, { 250, 1.3, 4 },  { 250, 1.35, 3 }, { 250, 3.9, 2 },
		      { 250, 4.1, 1 },  { 240, 0.99, 0 }, { 240, 1.02, 5 }, { 245, 1.02, 0 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int sample = 0;

		begin(&one_percent, 1);
		at[0].missing = 1u << PROBES_CALLS;
		sample_at(cases[i].every_ms * MS);
		assert_int_equal(sample_at(cases[i].every_ms * MS), 1);
		assert_int_equal(got[0].group, PROBES_CALLS);
		for (int k = 1; k <= 7 && !sample; k++) {
			load_add(0, PROBES_CALLS, cases[i].budgets, cases[i].every_ms * MS);
			sample = sample_at(cases[i].every_ms * MS) ? k : 0;
		}
		if (sample != cases[i].sample)
			fail_msg("%d ms, %.2f budgets: %d", (int)cases[i].every_ms, cases[i].budgets, sample);
		assert_true(!sample || (got[0].what == BUDGET_SHED && got[0].group == PROBES_CALLS));
		budget_rules_free(g);
	}
}

/* Two are on trial at once. What was paid for the one that goes is not held against the other. */
static void a_trial_beside_one_that_fails(void **state)
{
	int n;

	(void)state;
	begin(&one_percent, 1);
	at[0].missing = 1u << PROBES_NEEDED | 1u << PROBES_EVENTS;
	sample_at(QUARTER);
	assert_int_equal(sample_at(QUARTER), 1);
	assert_int_equal(got[0].group, PROBES_NEEDED);
	load_add(0, PROBES_NEEDED, 0.4, QUARTER);
	assert_int_equal(sample_at(QUARTER), 1);
	assert_int_equal(got[0].group, PROBES_EVENTS);
	do {
		load_add(0, PROBES_NEEDED, 0.9, QUARTER);
		load_add(0, PROBES_EVENTS, 1.8, QUARTER);
		n = sample_at(QUARTER);
	} while (!n);
	assert_int_equal(n, 1);
	assert_true(got[0].what == BUDGET_SHED && got[0].group == PROBES_EVENTS);
	for (int k = 0; k < 12; k++) {
		load_add(0, PROBES_NEEDED, 0.9, QUARTER);
		assert_int_equal(sample_at(QUARTER), 0);
	}
	budget_rules_free(g);
}

/* One that passed its trial long ago is not on trial again: what is a little above the budget for a second stays. */
static void a_trial_that_is_over(void **state)
{
	int n;

	(void)state;
	begin(&one_percent, 1);
	at[0].missing = 1u << PROBES_NEEDED;
	sample_at(QUARTER);
	assert_int_equal(sample_at(QUARTER), 1);
	at[0].missing = 0;
	for (int k = 0; k < 12; k++) {
		load_add(0, PROBES_NEEDED, 0.9, QUARTER);
		assert_int_equal(sample_at(QUARTER), 0);
	}
	at[0].missing = 1u << PROBES_CALLS;
	assert_int_equal(sample_at(QUARTER), 1);
	assert_int_equal(got[0].group, PROBES_CALLS);
	do {
		load_add(0, PROBES_NEEDED, 0.9, QUARTER);
		load_add(0, PROBES_CALLS, 3.9, QUARTER);
		n = sample_at(QUARTER);
	} while (!n);
	assert_true(n == 1 && got[0].what == BUDGET_SHED && got[0].group == PROBES_CALLS);
	at[0].missing = 0;
	for (int k = 0; k < 6; k++) {
		load_add(0, PROBES_NEEDED, 1.1, QUARTER);
		assert_int_equal(sample_at(QUARTER), 0);
	}
	budget_rules_free(g);
}

/* Back after a minute below half of the budget, the next time after four. */
static void calm_for_how_long(void **state)
{
	(void)state;
	for (int half = 0; half < 2; half++) {
		uint64_t cut_ns;
		int n = 0;

		begin(&one_percent, 1);
		assert_int_equal(goes_in(PROBES_POLLS, 5, QUARTER, 3), 3);
		cut_ns = now_ns;
		for (int i = 0; i < 300 && !n; i++)
			n = quarter_of(PROBES_NEEDED, half ? 0.52 : 0.1);
		if (half) {
			assert_int_equal(n, 0);
			budget_rules_free(g);
			continue;
		}
		assert_int_equal(n, 1);
		assert_true(got[0].what == BUDGET_BACK && got[0].group == PROBES_POLLS && !got[0].quiet);
		assert_int_equal(now_ns - cut_ns, BUDGET_BACK_NS + QUARTER); /* calm from the first sample on */
		assert_int_equal(budget_sums(g)->n_back, 1);
		assert_int_equal(quarter_of(PROBES_POLLS, 5), 1);
		cut_ns = now_ns;
		for (n = 0; !n;)
			n = quarter_of(PROBES_NEEDED, 0.1);
		assert_int_equal(got[0].what, BUDGET_BACK);
		assert_int_equal(now_ns - cut_ns, 4 * BUDGET_BACK_NS + QUARTER);
		budget_rules_free(g);
	}
}

/* --- all processes together --- */

/* Each within its own. A group on trial goes first, even where another one pays more. */
static void node_trials_end_first(void **state)
{
	static const struct budget_cfg cfg = { .price_ns = PRICE_NS, .budget_ppm = 100000, .node_ppm = 10000 };

	(void)state;
	begin(&cfg, 2);
	at[0].missing = 1u << PROBES_CALLS;
	sample_at(QUARTER);
	load_add(1, PROBES_POLLS, 0.4, QUARTER);
	assert_int_equal(sample_at(QUARTER), 1);
	assert_true(got[0].what == BUDGET_BACK && got[0].tgid == 100);
	load_add(0, PROBES_CALLS, 0.55, QUARTER);
	load_add(1, PROBES_POLLS, 0.4, QUARTER);
	assert_int_equal(sample_at(QUARTER), 0); /* 0.95 of it */
	load_add(0, PROBES_CALLS, 0.8, QUARTER);
	load_add(1, PROBES_POLLS, 0.4, QUARTER);
	assert_int_equal(sample_at(QUARTER), 1);
	assert_true(got[0].what == BUDGET_SHED && got[0].tgid == 100 && got[0].of_node);
	assert_int_equal(got[0].group, PROBES_CALLS);
	assert_int_equal(got[0].budget_ppm, 10000);
	budget_rules_free(g);
}

/* What pays most gives first; what is not probed pays nothing, and gives nothing. */
static void node_takes_from_the_highest(void **state)
{
	static const struct budget_cfg cfg = { .price_ns = PRICE_NS, .node_ppm = 10000 };
	int n = 0;

	(void)state;
	begin(&cfg, 3);
	sample_at(QUARTER);
	for (int i = 0; i < 3; i++) {
		load_add(0, PROBES_POLLS, 2, QUARTER);
		load_add(1, PROBES_POLLS, 3, QUARTER);
		load_add(2, PROBES_POLLS, 50, QUARTER);
		at[2].probed = false;
		n = sample_at(QUARTER);
		assert_int_equal(n, i < 2 ? 0 : 2);
	}
	assert_true(got[0].of_node && got[0].tgid == 101 && got[1].tgid == 100);
	assert_int_equal(got[0].node_hits_per_s, 5 * 10000);
	assert_int_equal(got[1].node_hits_per_s, 2 * 10000);
	budget_rules_free(g);
}

/* Two processes far above their own budget, and so above that of all: what each gives is enough, and nobody gives more
 * because all were above before. */
static void node_waits_for_processes(void **state)
{
	static const struct budget_cfg cfg = { .price_ns = PRICE_NS, .budget_ppm = 10000, .node_ppm = 100000 };
	int n = 0;

	(void)state;
	begin(&cfg, 2);
	sample_at(QUARTER);
	for (int i = 0; i < 3; i++) {
		for (int p = 0; p < 2; p++) {
			load_add(p, PROBES_EVENTS, 60, QUARTER);
			load_add(p, PROBES_NEEDED, 0.9, QUARTER);
		}
		n = sample_at(QUARTER);
		assert_int_equal(n, i < 2 ? 0 : 2);
	}
	for (int i = 0; i < 2; i++) {
		assert_false(got[i].of_node);
		assert_true(got[i].what == BUDGET_SHED && got[i].group == PROBES_EVENTS);
	}
	budget_rules_free(g);
}

/* No budget: whatever it costs. */
static void without_a_budget(void **state)
{
	static const struct budget_cfg cfg = { .price_ns = PRICE_NS };

	(void)state;
	begin(&cfg, 1);
	assert_int_equal(goes_in(PROBES_POLLS, 90, QUARTER, 100), 0);
	budget_rules_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(how_soon_by_how_much),
		cmocka_unit_test(what_spikes_may_do),
		cmocka_unit_test(again_and_again_is_lasting),
		cmocka_unit_test(what_follows_a_cut),
		cmocka_unit_test(slow_after_slow),
		cmocka_unit_test(a_tenth_is_worth_it),
		cmocka_unit_test(what_remains_may_be_all_of_it),
		cmocka_unit_test(rates_of_a_quick_order),
		cmocka_unit_test(rates_of_a_slow_order),
		cmocka_unit_test(the_peak_is_of_the_highest),
		cmocka_unit_test(what_no_counter_does),
		cmocka_unit_test(admission),
		cmocka_unit_test(admitted_before_any_call),
		cmocka_unit_test(trial),
		cmocka_unit_test(a_trial_beside_one_that_fails),
		cmocka_unit_test(a_trial_that_is_over),
		cmocka_unit_test(calm_for_how_long),
		cmocka_unit_test(node_trials_end_first),
		cmocka_unit_test(node_takes_from_the_highest),
		cmocka_unit_test(node_waits_for_processes),
		cmocka_unit_test(without_a_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
