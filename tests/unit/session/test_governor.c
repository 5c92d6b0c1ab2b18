/* SPDX-License-Identifier: Apache-2.0
 *
 * test_governor.c - who loses which probes when, and has them back: smoothed, in order, bounded, and never what is
 * needed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "session/governor.h"

#define S 1000000000ull
#define PRICE_NS 16
#define COST_NS 4000 /* 1 % of a core is 2,500 hits a second */

static const struct governor_cfg one_percent = { .price_ns = PRICE_NS, .budget_ppm = 10000 };

struct job { /* processes from 100 on, and the rates at which each is hit */
	struct governor *g;
	uint64_t now_s;
	int n;
	uint32_t hits[8][PROBE_GROUPS], rate[8][PROBE_GROUPS];
	bool unprobed;
};

static struct job job_of(const struct governor_cfg *cfg, int n)
{
	struct job j = { .g = governor_new(cfg), .now_s = 1000, .n = n };

	assert_non_null(j.g);
	return j;
}

/* A second passes. The first order, if there is one. */
static bool second(struct job *j, struct governor_order *ret)
{
	struct governor_order more;
	bool due;

	governor_sample_begin(j->g, ++j->now_s * S);
	for (int p = 0; p < j->n; p++) {
		struct governor_sample l = { .tgid = 100 + p, .start_ns = 7, .probed = !j->unprobed };

		for (int i = 0; i < PROBE_GROUPS; i++)
			l.paid[i] = (l.hits[i] = j->hits[p][i] += j->rate[p][i]) * (COST_NS / PRICE_NS);
		assert_int_equal(governor_sample_note(j->g, &l), 0);
	}
	governor_sample_end(j->g);
	due = governor_next(j->g, ret);
	assert_false(due && governor_next(j->g, &more)); /* one a second is all there ever is here */
	if (due && ret->what == BUDGET_SHED)
		j->rate[ret->tgid - 100][ret->group] = 0;
	return due;
}

/* Seconds until there is an order; -1: none within `max`. */
static int seconds(struct job *j, int max, struct governor_order *ret)
{
	for (int i = 1; i <= max; i++)
		if (second(j, ret))
			return i;
	return -1;
}

static void within_budget(void **state)
{
	struct job j = job_of(&one_percent, 1);
	struct governor_order o;

	(void)state;
	j.rate[0][PROBES_NEEDED] = 1000;
	j.rate[0][PROBES_BURST] = 1400;
	assert_int_equal(seconds(&j, 500, &o), -1);
	assert_int_equal(governor_sums(j.g)->hits, 499 * 2400); /* the first look finds the process, and its counters */
	assert_int_equal(governor_sums(j.g)->paid_ns, 499ull * 2400 * COST_NS);
	assert_int_equal(governor_sums(j.g)->peak_ns_per_s, 2400 * COST_NS);
	governor_free(j.g);
	governor_free(NULL);
}

/* Burst, then polls, then calls; each needs its seconds; what is needed stays, and that is told once. */
static void sheds_in_order(void **state)
{
	static const enum probe_group order[] = { PROBES_BURST, PROBES_POSTS, PROBES_POLLS, PROBES_CALLS };
	struct job j = job_of(&one_percent, 1);
	struct governor_order o;
	uint32_t without = 0;

	(void)state;
	for (int i = 0; i < PROBE_GROUPS; i++)
		j.rate[0][i] = 20000;
	for (int i = 0; i < 4; i++) {
		int took = seconds(&j, 20, &o);

		assert_true(took >= 3 && took <= 5);
		assert_int_equal(o.what, BUDGET_SHED);
		assert_int_equal(o.tgid, 100);
		assert_int_equal(o.group, order[i]);
		without |= 1u << order[i];
		assert_int_equal(o.shed, without);
		assert_int_equal(o.budget_ppm, 10000);
		assert_false(o.of_node);
	}
	assert_true(seconds(&j, 20, &o) >= 3);
	assert_int_equal(o.what, BUDGET_KEPT);
	assert_int_equal(o.hits_per_s, 20000);
	assert_int_equal(seconds(&j, 1000, &o), -1);
	assert_int_equal(governor_sums(j.g)->n_shed, 4);
	governor_free(j.g);
}

/* One spike, however high, is nothing; neither are two in a row, or one in every ten seconds. */
static void spikes_do_not_count(void **state)
{
	struct job j = job_of(&one_percent, 1);
	struct governor_order o;

	(void)state;
	j.rate[0][PROBES_NEEDED] = 100;
	assert_int_equal(seconds(&j, 10, &o), -1);
	for (int i = 0; i < 200; i++) {
		j.rate[0][PROBES_BURST] = i == 5 || i == 6 || (i > 50 && i % 10 == 0) ? 250000 : 0;
		assert_false(second(&j, &o));
	}
	governor_free(j.g);
}

/* Neither is one in a process that is near its budget anyway. */
static void spikes_near_the_budget(void **state)
{
	struct job j = job_of(&one_percent, 1);
	struct governor_order o;

	(void)state;
	for (int i = 0; i < 100; i++) {
		j.rate[0][PROBES_BURST] = i == 50 ? 250000 : 2300;
		assert_false(second(&j, &o));
	}
	governor_free(j.g);
}

/* Every other second is busy: on average over the budget, and it is seen. */
static void unsteady_loads_count(void **state)
{
	struct job j = job_of(&one_percent, 1);
	struct governor_order o;
	int i;

	(void)state;
	for (i = 0; i < 60; i++) {
		j.rate[0][PROBES_BURST] = i % 2 ? 8000 : 0;
		if (second(&j, &o))
			break;
	}
	assert_true(i > 5 && i < 30);
	assert_int_equal(o.group, PROBES_BURST);
	governor_free(j.g);
}

/* A little over the budget: later than far over it. */
static void little_over_takes_longer(void **state)
{
	struct job j = job_of(&one_percent, 1);
	struct governor_order o;
	int took;

	(void)state;
	j.rate[0][PROBES_POLLS] = 3200;
	took = seconds(&j, 100, &o);
	assert_true(took > 8 && took < 30);
	governor_free(j.g);
}

/* Groups that cost next to nothing stay: nothing would be gained by them. */
static void cheap_groups_stay(void **state)
{
	struct job j = job_of(&one_percent, 1);
	struct governor_order o;

	(void)state;
	j.rate[0][PROBES_NEEDED] = 6000;
	j.rate[0][PROBES_POLLS] = 200;
	j.rate[0][PROBES_CALLS] = 9000;
	assert_true(seconds(&j, 20, &o) > 0);
	assert_int_equal(o.group, PROBES_CALLS);
	assert_int_equal(o.hits_per_s, 15200);
	assert_true(seconds(&j, 20, &o) > 0);
	assert_int_equal(o.what, BUDGET_KEPT);
	governor_free(j.g);
}

/* Calm for a minute: it comes back. Too much again: it goes, and the next time it takes four minutes; then it stays
 * away. */
static void comes_back_a_few_times(void **state)
{
	struct job j = job_of(&one_percent, 1);
	struct governor_order o;

	(void)state;
	j.rate[0][PROBES_NEEDED] = 300;
	for (int i = 0; i <= GOVERNOR_BACKS; i++) {
		int calm_s = GOVERNOR_BACK_NS / S << 2 * i, took;

		j.rate[0][PROBES_POLLS] = 50000;
		assert_true(seconds(&j, 10, &o) >= 3);
		assert_int_equal(o.what, BUDGET_SHED);
		took = seconds(&j, 2000, &o);
		if (i == GOVERNOR_BACKS) {
			assert_int_equal(took, -1);
			break;
		}
		assert_true(took >= calm_s && took < calm_s + 20);
		assert_int_equal(o.what, BUDGET_BACK);
		assert_int_equal(o.group, PROBES_POLLS);
		assert_int_equal(o.shed, 0);
	}
	assert_int_equal(governor_sums(j.g)->n_shed, GOVERNOR_BACKS + 1);
	assert_int_equal(governor_sums(j.g)->n_back, GOVERNOR_BACKS);
	governor_free(j.g);
}

/* Between half of the budget and all of it nothing happens. */
static void hysteresis(void **state)
{
	struct job j = job_of(&one_percent, 1);
	struct governor_order o;

	(void)state;
	j.rate[0][PROBES_NEEDED] = 1800;
	j.rate[0][PROBES_POLLS] = 50000;
	assert_true(seconds(&j, 10, &o) >= 3);
	assert_int_equal(seconds(&j, 1000, &o), -1);
	j.rate[0][PROBES_NEEDED] = 1000;
	assert_true(seconds(&j, 100, &o) >= 60);
	assert_int_equal(o.what, BUDGET_BACK);
	governor_free(j.g);
}

/* Matched by count: half of them would be wrong. */
static void posts_never_come_back(void **state)
{
	struct job j = job_of(&one_percent, 1);
	struct governor_order o;

	(void)state;
	j.rate[0][PROBES_POSTS] = 90000;
	assert_true(seconds(&j, 10, &o) >= 3);
	assert_int_equal(o.group, PROBES_POSTS);
	assert_int_equal(seconds(&j, 3000, &o), -1);
	governor_free(j.g);
}

/* Each within its budget, all together not: whoever is hit most gives first, until it is enough. */
static void node_budget(void **state)
{
	const struct governor_cfg cfg = { .price_ns = PRICE_NS, .budget_ppm = 10000, .node_ppm = 20000 };
	struct job j = job_of(&cfg, 4);
	struct governor_order o;

	(void)state;
	for (int p = 0; p < 4; p++) {
		j.rate[p][PROBES_NEEDED] = 400;
		j.rate[p][PROBES_POLLS] = 1000 + 100 * p;
	}
	assert_true(seconds(&j, 30, &o) > 8);
	assert_true(o.of_node && o.what == BUDGET_SHED && o.group == PROBES_POLLS);
	assert_int_equal(o.tgid, 103);
	assert_int_equal(o.budget_ppm, 20000);
	assert_int_equal(o.hits_per_s, 1700);
	assert_int_equal(o.hit_ns, COST_NS);
	assert_int_equal(o.node_hits_per_s, 400 * 4 + 1000 + 1100 + 1200 + 1300);
	assert_int_equal(seconds(&j, 1000, &o), -1); /* enough, and too much for anything to come back */
	governor_free(j.g);
}

static void node_without_anything_to_give(void **state)
{
	const struct governor_cfg cfg = { .price_ns = PRICE_NS, .node_ppm = 10000 };
	struct job j = job_of(&cfg, 2);
	struct governor_order o;

	(void)state;
	j.rate[0][PROBES_NEEDED] = 9000;
	j.rate[1][PROBES_NEEDED] = 8000;
	assert_true(seconds(&j, 30, &o) >= 3);
	assert_true(o.of_node && o.what == BUDGET_KEPT && o.tgid == 100);
	assert_int_equal(seconds(&j, 300, &o), -1);
	governor_free(j.g);
}

/* Where probes cannot be taken from one process it is only told. */
static void fixed(void **state)
{
	struct governor_cfg cfg = one_percent;
	struct governor_order o;
	struct job j;

	(void)state;
	cfg.fixed = true;
	j = job_of(&cfg, 1);
	j.rate[0][PROBES_BURST] = 90000;
	assert_true(seconds(&j, 10, &o) >= 3);
	assert_int_equal(o.what, BUDGET_KEPT);
	governor_free(j.g);
}

/* Not probed for a while: nothing comes back then, and what went is remembered. */
static void unprobed_for_a_while(void **state)
{
	struct job j = job_of(&one_percent, 1);
	struct governor_order o;

	(void)state;
	j.rate[0][PROBES_NEEDED] = 10;
	j.rate[0][PROBES_POLLS] = j.rate[0][PROBES_CALLS] = 50000;
	assert_true(seconds(&j, 10, &o) >= 3);
	j.unprobed = true;
	j.rate[0][PROBES_CALLS] = 0;
	assert_int_equal(seconds(&j, 500, &o), -1);
	j.unprobed = false;
	j.rate[0][PROBES_CALLS] = 50000;
	assert_true(seconds(&j, 10, &o) >= 3);
	assert_int_equal(o.shed, 1u << PROBES_POLLS | 1u << PROBES_CALLS);
	governor_free(j.g);
}

/* What is dear goes, not what is hit often. */
static void price_counts(void **state)
{
	struct governor_sample l = { .tgid = 100, .probed = true };
	struct governor *g = governor_new(&one_percent);
	struct governor_order o = { 0 };

	(void)state;
	for (int i = 1; i < 10 && !o.shed; i++) {
		l.hits[PROBES_POLLS] += 50000; /* of 16 ns */
		l.paid[PROBES_POLLS] += 50000;
		l.hits[PROBES_CALLS] += 5000; /* of 16 us */
		l.paid[PROBES_CALLS] += 5000000;
		governor_sample_begin(g, i * S);
		assert_int_equal(governor_sample_note(g, &l), 0);
		governor_sample_end(g);
		governor_next(g, &o);
	}
	assert_int_equal(o.group, PROBES_CALLS);
	assert_int_equal(o.hits_per_s, 55000);
	assert_int_equal(o.hit_ns, (50000 * 16 + 5000000 * 16) / 55000);
	governor_free(g);
}

/* Counters that begin anew, or wrap, are no burst; another process under the same number starts with all its probes. */
static void counters(void **state)
{
	struct governor_sample l = { .tgid = 100, .start_ns = 7, .probed = true };
	struct job j = job_of(&one_percent, 0);
	struct governor_order o;

	(void)state;
	l.hits[PROBES_POLLS] = UINT32_MAX - 3000;
	for (int i = 0; i < 40; i++) {
		l.hits[PROBES_POLLS] += 1000;
		l.hits[PROBES_NEEDED] += 1;
		if (i == 20)
			memset(l.hits, 0, sizeof(l.hits));
		for (int k = 0; k < PROBE_GROUPS; k++)
			l.paid[k] = l.hits[k] * (COST_NS / PRICE_NS);
		governor_sample_begin(j.g, ++j.now_s * S);
		assert_int_equal(governor_sample_note(j.g, &l), 0);
		governor_sample_end(j.g);
		assert_false(governor_next(j.g, &o));
	}
	assert_true(governor_sums(j.g)->hits <= 39 * 1001);
	for (int i = 0; i < 10; i++) {
		l.hits[PROBES_POLLS] += 100000;
		l.paid[PROBES_POLLS] = l.hits[PROBES_POLLS] * (COST_NS / PRICE_NS);
		l.start_ns = i < 7 ? 7 : 8;
		governor_sample_begin(j.g, ++j.now_s * S);
		assert_int_equal(governor_sample_note(j.g, &l), 0);
		governor_sample_end(j.g);
		if (governor_next(j.g, &o))
			assert_true(i < 7 && o.shed);
	}
	governor_sample_begin(j.g, ++j.now_s * S); /* it is gone */
	governor_sample_end(j.g);
	assert_false(governor_next(j.g, &o));
	governor_free(j.g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(within_budget),
		cmocka_unit_test(sheds_in_order),
		cmocka_unit_test(spikes_do_not_count),
		cmocka_unit_test(spikes_near_the_budget),
		cmocka_unit_test(unsteady_loads_count),
		cmocka_unit_test(little_over_takes_longer),
		cmocka_unit_test(cheap_groups_stay),
		cmocka_unit_test(comes_back_a_few_times),
		cmocka_unit_test(hysteresis),
		cmocka_unit_test(posts_never_come_back),
		cmocka_unit_test(node_budget),
		cmocka_unit_test(node_without_anything_to_give),
		cmocka_unit_test(fixed),
		cmocka_unit_test(unprobed_for_a_while),
		cmocka_unit_test(price_counts),
		cmocka_unit_test(counters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
