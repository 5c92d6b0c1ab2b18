/* SPDX-License-Identifier: Apache-2.0
 *
 * test_blame_history.c - when blame becomes a verdict: how often in a row by the number of ranks, how far above what
 * the others earn, since when, and when it is forgotten. Windows are written by hand: w of them, the newest last.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "detect/straggler/history.h"

#define RANKS_MAX 128
#define BEGIN_NS(w) (1000 + (w)) /* of window w, from 0 */

static const char unused[] = "?";
static struct job_id *const job = (struct job_id *)unused;
static struct proc procs[RANKS_MAX];
static struct steps steps = { .period_ops = 3 };
static struct op op;
static struct model m;
static struct job_clock job_clock;
static uint64_t one_key = 1, other_key = 2;
static struct blamed one, other;

static void ranks(int n)
{
	memset(procs, 0, sizeof(procs));
	for (int i = 0; i < n; i++)
		procs[i] = (struct proc){
			.rank = i, .job = job, .steps = &steps, .last_op = &op, .next = i + 1 < n ? &procs[i + 1] : NULL
		};
	m.procs = procs;
}

static int setup(void **state)
{
	(void)state;
	ranks(8);
	job_clock = (struct job_clock){ .job = job, .blamed = &one };
	one = (struct blamed){ .n = 1, .procs = &one_key, .sorted = &one_key };
	other = (struct blamed){ .n = 1, .procs = &other_key, .sorted = &other_key };
	return 0;
}

/* One more window: the share of either in it; slow from 5 % on. */
static void window(double share, double other_share)
{
	int at = job_clock.n % HISTORY;

	job_clock.begin_ns[at] = BEGIN_NS(job_clock.n);
	one.share[at] = share;
	one.slow[at] = share >= SLOW_SHARE;
	other.share[at] = other_share;
	other.slow[at] = other_share >= SLOW_SHARE;
	job_clock.n++;
}

static void windows(int n, double share, double other_share)
{
	while (n-- > 0)
		window(share, other_share);
}

static bool is_named(void)
{
	slow_decide(&job_clock, &m, &one);
	return one.open_since_ns;
}

static void how_often_lately(void **state)
{
	(void)state;
	assert_int_equal(times_slow(&job_clock, &one, 5), 0);
	assert_true(recent_mean(&job_clock, one.share) == 0);
	windows(2, 0.25, 0);
	assert_int_equal(times_slow(&job_clock, &one, 5), 2);
	assert_int_equal(times_slow(&job_clock, &one, 1), 1);
	assert_true(recent_mean(&job_clock, one.share) == 0.25);
	windows(18, 0, 0);
	assert_int_equal(times_slow(&job_clock, &one, HISTORY), 2);
	assert_int_equal(times_slow(&job_clock, &one, 18), 0);
	assert_int_equal(times_slow(&job_clock, &one, 19), 1);
	windows(2, 0.5, 0);
	assert_int_equal(times_slow(&job_clock, &one, HISTORY), 2);
	assert_int_equal(times_slow(&job_clock, &one, 1), 1);
	assert_true(recent_mean(&job_clock, one.share) == 0.2);
}

/* The more ranks there are, the less is it luck that it is always the same; at least four times. Two that take turns
 * are distinguished last. */
static void how_often_from_the_start(void **state)
{
	static const struct {
		int ranks, times;
	} cases[] = { { 2, 10 }, { 4, 6 }, { 6, 5 }, { 7, 5 }, { 8, 4 }, { 100, 4 } };

	for (size_t i = 0; i < 6; i++) {
		int times = 0;

		setup(state);
		ranks(cases[i].ranks);
		while (!is_named()) {
			window(0.5, 0);
			assert_true(++times <= HISTORY);
		}
		assert_int_equal(times, cases[i].times);
		assert_int_equal(one.open_since_ns, BEGIN_NS(times < 5 ? 0 : times - 5));
	}
}

/* Ranks without a clock do not count. */
static void which_ranks_count(void **state)
{
	static const struct job_id *const another = (const struct job_id *)(unused + 1);
	static struct steps none;

	for (int i = 0; i < 6; i++) {
		setup(state);
		windows(4, 0.5, 0);
		procs[3].dead = i == 1;
		procs[3].is_child = i == 2;
		procs[3].steps = i == 3 ? &none : &steps;
		procs[3].last_op = i == 4 ? NULL : &op;
		procs[3].job = i == 5 ? another : job;
		assert_int_equal(is_named(), i == 0); /* four times are too few where they are seven */
		assert_int_equal(rank_has_clock(&procs[3]), i == 0 || i == 5);
		assert_ptr_equal(job_anchor(&m, job), &procs[0]);
		procs[0].rank = procs[1].rank = procs[2].rank = 50;
		assert_ptr_equal(job_anchor(&m, job), i == 0 ? &procs[3] : &procs[4]);
	}
	m.procs = NULL;
	assert_null(job_anchor(&m, job));
}

/* Four of the last five, or ten of twenty with one of them among the last five. */
static void how_often_in_between(void **state)
{
	static const struct {
		int early, pause, late, after;
		bool named;
		uint64_t since;
	} cases[] = {
		{ 0, 16, 4, 0, true, BEGIN_NS(16) }, { 0, 15, 4, 1, true, BEGIN_NS(15) },
		{ 0, 17, 3, 0, false, 0 },           { 9, 10, 1, 0, true, BEGIN_NS(19) },
		{ 8, 11, 1, 0, false, 0 },           { 10, 10, 0, 0, false, 0 },
		{ 9, 6, 1, 4, true, BEGIN_NS(15) },  { 9, 5, 1, 5, false, 0 },
	};

	for (size_t i = 0; i < 8; i++) {
		setup(state);
		windows(cases[i].early, 0.5, 0);
		windows(cases[i].pause, 0, 0);
		windows(cases[i].late, 0.5, 0);
		windows(cases[i].after, 0, 0);
		assert_int_equal(is_named(), cases[i].named);
		assert_int_equal(one.open_since_ns, cases[i].since);
	}
}

/* Two ranks: one that is the slower by as much each time, or in 16 of 20. */
static void of_two_it_is_steady(void **state)
{
	static const struct {
		int windows;
		double spread;
		bool named;
	} cases[] = {
		{ 10, 0.37, true }, { 10, 0.38, false }, { 9, 0.37, false }, { 15, 0.38, false }, { 16, 0.38, true }
	};

	for (size_t i = 0; i < 5; i++) {
		setup(state);
		ranks(2);
		windows(cases[i].windows - 5, 0.5, 0);
		for (int k = 0; k < 5; k++)
			window(0.5 * (1 + (k == 4 ? 0 : k % 2 ? -cases[i].spread : cases[i].spread)), 0);
		assert_int_equal(is_named(), cases[i].named);
	}
}

/* A set of half of the ranks is one of two. */
static void of_two_halves(void **state)
{
	static const int set_of[] = { 1, 4, 8 }, times[] = { 4, 10, 10 };

	for (int i = 0; i < 3; i++) {
		setup(state);
		one.n = set_of[i];
		windows(times[i] - 1, 0.5, 0);
		assert_false(is_named());
		window(0.5, 0);
		assert_true(is_named());
	}
}

/* Another is slow whenever it is not: five in a row are no luck among eight, and luck among seven. */
static void one_that_takes_turns(void **state)
{
	static const struct {
		int ranks, last;
		bool named;
	} cases[] = { { 8, 5, true }, { 7, 5, false }, { 8, 4, false } };

	for (size_t i = 0; i < 3; i++) {
		setup(state);
		ranks(cases[i].ranks);
		one.next = &other;
		windows(HISTORY - cases[i].last, 0, 0.5);
		windows(cases[i].last, 0.5, 0);
		assert_int_equal(is_named(), cases[i].named);
	}
}

/* Slow together in three of the last five: two faults at once, and no turns. */
static void two_faults_at_once(void **state)
{
	for (int together = 2; together <= 3; together++) {
		setup(state);
		one.next = &other;
		windows(15, 0, 0.5);
		window(0, 0);
		windows(4 - together, 0.5, 0);
		windows(together, 0.5, 0.5);
		other.usual_share = 0.4;
		assert_int_equal(is_named(), together == 3);
	}
}

/* As two H100s recorded it: FSDP2, both ranks bound by their hosts, 28 steps to a period, late now the one, now the
 * other, and both in nearly each period. None is the one. */
static void two_late_in_the_same_long_steps(void **state)
{
	static const double shares[][2] = {
		{ 0.043, 0.631 }, { 0.014, 0.181 }, { 0, 0.245 },     { 0.059, 0.092 }, { 0.050, 0.095 },
		{ 0.005, 0.192 }, { 0.195, 0.013 }, { 0.038, 0.148 }, { 0.018, 0.181 }, { 0.089, 0.077 },
		{ 0.062, 0.070 }, { 0.142, 0.029 }, { 0.150, 0.046 }, { 0.131, 0.088 }, { 0.173, 0.009 },
		{ 0.083, 0.049 }, { 0.032, 0.076 }, { 0.112, 0.055 }, { 0.089, 0.110 }, { 0.098, 0.070 },
		{ 0.171, 0.032 }, { 0.071, 0.071 },
	};

	(void)state;
	ranks(2);
	one.next = &other;
	for (size_t i = 0; i < sizeof(shares) / sizeof(*shares); i++) {
		window(shares[i][0], shares[i][1]);
		other.usual_share += (shares[i][1] - other.usual_share) / (i + 1);
		assert_false(is_named());
	}
}

/* Several times what the others earn on average; the more the less was seen. */
static void above_what_varies_by_itself(void **state)
{
	static const struct {
		int windows;
		double others, limit;
	} cases[] = { { 20, 0.07, 0.293125 }, { 100, 0.07, 0.282625 }, { 5, 0, 0.0975 }, { 10, 0.07, 0.39375 } };

	for (size_t i = 0; i < 4; i++)
		for (int above = 0; above < 2; above++) {
			setup(state);
			one.next = &other;
			one.usual_share = 0.9; /* its own is none of it */
			other.usual_share = cases[i].others;
			windows(cases[i].windows - 5, 0, 0);
			windows(5, cases[i].limit + (above ? 1e-4 : -1e-4), 0);
			assert_int_equal(is_named(), above);
		}
}

static void what_is_over_is_forgotten(void **state)
{
	(void)state;
	windows(20, 0.5, 0);
	assert_true(is_named());
	one.cause = CAUSE_UNKNOWN + 1;
	one.delayed = 1;
	one.usual_share = 0.1;
	windows(4, 0, 0);
	assert_int_equal(is_named(), true);
	assert_int_equal(one.open_since_ns, BEGIN_NS(15)); /* as it was said */
	assert_int_equal(one.delayed, 1);
	window(0, 0);
	assert_false(is_named());
	assert_int_equal(one.cause, CAUSE_NONE);
	assert_int_equal(one.delayed, 0);
	assert_true(one.usual_share == 0);
	assert_int_equal(times_slow(&job_clock, &one, HISTORY), 0);
}

/* Before it was ever named its past stays. */
static void what_was_not_named_is_kept(void **state)
{
	(void)state;
	windows(3, 0.5, 0);
	windows(5, 0, 0);
	one.usual_share = 0.1;
	assert_false(is_named());
	assert_true(one.usual_share == 0.1);
	assert_int_equal(times_slow(&job_clock, &one, HISTORY), 3);
}

/* A smaller set that is named, and shares its first rank. */
static void a_smaller_set_names_it_better(void **state)
{
	uint64_t set[] = { 5, 6, 7 }, last[] = { 7, 9 }, without[] = { 8, 5 };

	(void)state;
	one.next = &other;
	one.n = 3;
	one.procs = set;
	other.n = 2;
	other.procs = last;
	assert_false(blame_named_better(&job_clock, &one)); /* it is not named */
	other.open_since_ns = 1;
	assert_true(blame_named_better(&job_clock, &one));
	other.procs = without;
	assert_false(blame_named_better(&job_clock, &one));
	other.procs = set;
	assert_true(blame_named_better(&job_clock, &one));
	other.n = 3; /* not smaller */
	assert_false(blame_named_better(&job_clock, &one));
	other.n = 1;
	one.n = 1; /* one alone is named as well as can be */
	assert_false(blame_named_better(&job_clock, &one));
}

/* Its ranks as they were found, and by their value to look them up. */
static void a_new_one(void **state)
{
	uint64_t found[] = { 99, 7, 3, 5, 11 };
	struct blames all = { .procs = found };
	struct blame b = { .key = 42, .n = 3, .at = 1 };
	struct blamed *d = blamed_new(&all, &b);

	(void)state;
	assert_non_null(d);
	assert_int_equal(d->key, 42);
	assert_int_equal(d->n, 3);
	assert_memory_equal(d->procs, found + 1, 3 * sizeof(*found));
	assert_true(d->sorted[0] == 3 && d->sorted[1] == 5 && d->sorted[2] == 7);
	assert_int_equal(d->open_since_ns, 0);
	blamed_free(d);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup)
	const struct CMUnitTest tests[] = {
		TEST(how_often_lately),
		TEST(how_often_from_the_start),
		TEST(which_ranks_count),
		TEST(how_often_in_between),
		TEST(of_two_it_is_steady),
		TEST(of_two_halves),
		TEST(one_that_takes_turns),
		TEST(two_faults_at_once),
		TEST(two_late_in_the_same_long_steps),
		TEST(above_what_varies_by_itself),
		TEST(what_is_over_is_forgotten),
		TEST(what_was_not_named_is_kept),
		TEST(a_smaller_set_names_it_better),
		TEST(a_new_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
