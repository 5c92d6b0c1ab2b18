/* SPDX-License-Identifier: Apache-2.0
 *
 * test_probe_budget.c - who loses which probes when, and has them back: in order, bounded, at last all.
 */
#include "tests/unit/job/budget_job.h"

static struct job j; /* of the test that runs: one process and a budget of 1 %, if it says nothing else */

static int job_begin(void **state)
{
	(void)state;
	j = job_of(&one_percent, 1);
	return 0;
}

static int job_end(void **state)
{
	(void)state;
	budget_rules_free(j.g);
	return 0;
}

static void job_be(const struct budget_cfg *cfg, int n)
{
	budget_rules_free(j.g);
	j = job_of(cfg, n);
}

/* A quarter of a second passes. Orders into `o`, the number of them. */
static int quarter(struct budget_order *o, int max)
{
	int n = 0;

	do
		step(&j);
	while (j.now_ns % SAMPLE_NS);
	sample(&j);
	while (budget_next(j.g, &o[n])) {
		for (int p = 0; p < j.n; p++)
			if (j.is_shared || o[n].tgid == 100u + p)
				order_apply(&j, p, &o[n]);
		assert_true(++n < max);
	}
	return n;
}

/* Seconds until there is an order, of which there must be one; -1: none within `max`. */
static double seconds(double max, struct budget_order *ret)
{
	struct budget_order o[32];

	for (int i = 1; i <= 4 * max; i++) {
		int n = quarter(o, 32);

		assert_true(n <= 1);
		if (!n)
			continue;
		*ret = o[0];
		return i / 4.0;
	}
	return -1;
}

static void within_budget(void **state)
{
	struct budget_order o;

	(void)state;
	j.rate[0][PROBES_NEEDED] = 1000;
	j.rate[0][PROBES_BURST] = 1400;
	assert_true(seconds(500.25, &o) < 0);
	assert_int_equal(budget_sums(j.g)->hits, 500 * 2400); /* the first sample finds the process */
	assert_int_equal(budget_sums(j.g)->paid_ns, 500ull * 2400 * COST_NS);
	assert_true(budget_sums(j.g)->peak_ns_per_s > 2395.0 * COST_NS);
	assert_true(budget_sums(j.g)->peak_ns_per_s < 2405.0 * COST_NS);
	budget_rules_free(NULL);
}

/* All dear: they go in one sample, those with the least evidence first, and at last all. */
static void order_of_shedding(void **state)
{
	static const enum probe_group order[] = { PROBES_RANGES, PROBES_BURST, PROBES_GC,     PROBES_POSTS,
						  PROBES_POLLS,  PROBES_CALLS, PROBES_EVENTS, PROBES_NEEDED };
	struct budget_order o[32];
	uint32_t without = 0;
	int quarters = 0, n;

	(void)state;
	for (int i = 0; i < PROBE_GROUPS; i++)
		j.rate[0][i] = 20000;
	while (!(n = quarter(o, 32)))
		quarters++;
	assert_in_range(quarters, 3, 4);
	assert_int_equal(n, 8);
	for (int i = 0; i < n; i++) {
		without |= 1u << order[i];
		assert_int_equal(o[i].what, i < 7 ? BUDGET_SHED : BUDGET_WATCH);
		assert_int_equal(o[i].tgid, 100);
		assert_int_equal(o[i].group, order[i]);
		assert_int_equal(o[i].shed, without);
		assert_int_equal(o[i].budget_ppm, 10000);
		assert_in_range(o[i].hits_per_s, 20000 * (8 - i) - 10, 20000 * (8 - i) + 10);
		assert_false(o[i].of_node);
	}
	assert_int_equal(quarter(o, 32), 0);
	assert_int_equal(budget_sums(j.g)->n_shed, 8);
}

/* As many as it takes: what is dear goes, what remains is within the budget and stays. */
static void only_what_is_dear(void **state)
{
	struct budget_order o;

	(void)state;
	j.rate[0][PROBES_NEEDED] = 1000;
	j.rate[0][PROBES_CALLS] = 300;
	j.rate[0][PROBES_POLLS] = 100;
	j.rate[0][PROBES_EVENTS] = 137000;
	assert_true(seconds(20, &o) <= 1.5);
	assert_int_equal(o.what, BUDGET_SHED);
	assert_int_equal(o.group, PROBES_EVENTS);
	assert_in_range(o.hits_per_s, 138390, 138410);
	assert_int_equal(o.hit_ns, COST_NS);
	assert_true(seconds(50, &o) < 0);
}

/* The same cost: allocations say less than CUDA events. Ten times the cost: it is the events that go. */
static void evidence_for_its_cost(void **state)
{
	struct budget_order o;

	(void)state;
	j.rate[0][PROBES_EVENTS] = j.rate[0][PROBES_CALLS] = 2200;
	j.rate[0][PROBES_NEEDED] = 100;
	assert_true(seconds(20, &o) > 0);
	assert_int_equal(o.group, PROBES_CALLS);
	job_be(&one_percent, 1);
	j.rate[0][PROBES_NEEDED] = 100;
	j.rate[0][PROBES_EVENTS] = 10 * (j.rate[0][PROBES_CALLS] = 2000);
	assert_true(seconds(20, &o) > 0);
	assert_int_equal(o.group, PROBES_EVENTS);
}

/* Groups that cost next to nothing do not go before the dear one: without them nothing would be gained. */
static void needed_alone_is_dear(void **state)
{
	struct budget_order o;

	(void)state;
	j.rate[0][PROBES_NEEDED] = 9000;
	j.rate[0][PROBES_POLLS] = 200;
	assert_true(seconds(20, &o) <= 1.5);
	assert_int_equal(o.what, BUDGET_WATCH);
	assert_int_equal(o.shed, ALL);
}

/* One spike of half a second, however high, is nothing; neither are two close by, or one in every ten seconds. */
static void spikes_do_not_count(void **state)
{
	struct budget_order o[32];

	(void)state;
	j.rate[0][PROBES_NEEDED] = 100;
	for (int i = 0; i < 800; i++) {
		bool spike = (i >= 20 && i < 22) || (i >= 24 && i < 26) || (i > 200 && i % 40 < 2);

		j.rate[0][PROBES_BURST] = spike ? 250000 : 0;
		assert_int_equal(quarter(o, 32), 0);
	}
}

/* Every other second is busy: on average over the budget, and it is seen. */
static void unsteady_loads_count(void **state)
{
	struct budget_order o[32];
	int i;

	(void)state;
	for (i = 0; i < 240; i++) {
		j.rate[0][PROBES_POLLS] = i % 4 < 2 ? 8000 : 0;
		if (quarter(o, 32))
			break;
	}
	assert_in_range(i, 20, 120);
	assert_int_equal(o[0].group, PROBES_POLLS);
}

/* A little over the budget: later than far over it. */
static void little_over_takes_longer(void **state)
{
	struct budget_order o;
	double took;

	(void)state;
	j.rate[0][PROBES_POLLS] = 3200;
	took = seconds(100, &o);
	assert_true(took > 8 && took < 30);
}

/* Calm for a minute: it comes back. Too much again: it goes within the second that it is measured, and the next time it
 * takes four minutes; then it stays away. */
static void comes_back_a_few_times(void **state)
{
	struct budget_order o;

	(void)state;
	j.rate[0][PROBES_NEEDED] = 300;
	for (int i = 0; i <= BUDGET_BACKS; i++) {
		double calm_s = BUDGET_BACK_NS / S << 2 * i, took;

		j.rate[0][PROBES_POLLS] = 50000;
		took = seconds(10, &o);
		assert_true(i ? took <= 0.5 : took <= 1.5);
		assert_int_equal(o.what, BUDGET_SHED);
		took = seconds(2000, &o);
		if (i == BUDGET_BACKS) {
			assert_true(took < 0);
			break;
		}
		assert_true(took >= calm_s && took < calm_s + 20);
		assert_int_equal(o.what, BUDGET_BACK);
		assert_int_equal(o.group, PROBES_POLLS);
		assert_false(o.quiet);
		assert_int_equal(o.shed, 0);
	}
	assert_int_equal(budget_sums(j.g)->n_shed, BUDGET_BACKS + 1);
	assert_int_equal(budget_sums(j.g)->n_back, BUDGET_BACKS);
}

/* After all went: what is needed first, then those that were not to blame, then what was. */
static void comes_back_from_watch(void **state)
{
	static const enum probe_group order[] = { PROBES_NEEDED, PROBES_CALLS,  PROBES_EVENTS,
						  PROBES_GC,     PROBES_RANGES, PROBES_BURST };
	struct budget_order o[32];
	double took;

	(void)state;
	j.rate[0][PROBES_NEEDED] = 9000;
	j.rate[0][PROBES_POLLS] = 9000;
	while (quarter(o, 32) != 2)
		;
	assert_int_equal(o[1].what, BUDGET_WATCH);
	j.rate[0][PROBES_NEEDED] = j.rate[0][PROBES_POLLS] = 100;
	for (int i = 0; i < 6; i++) {
		took = seconds(100, &o[0]);
		assert_true(i ? took <= 1 : took >= 60);
		assert_int_equal(o[0].what, BUDGET_BACK);
		assert_int_equal(o[0].group, order[i]);
		assert_false(o[0].quiet);
	}
	assert_true(seconds(100, &o[0]) > 50);
	assert_int_equal(o[0].group, PROBES_POLLS);
	assert_int_equal(o[0].shed, 1u << PROBES_POSTS);
	assert_true(seconds(1000, &o[0]) < 0);
}

/* Too much again while it is measured: all go at once. */
static void needed_on_trial(void **state)
{
	struct budget_order o;

	(void)state;
	j.rate[0][PROBES_NEEDED] = 9000;
	assert_true(seconds(20, &o) > 0);
	assert_true(seconds(100, &o) >= 60);
	assert_int_equal(o.group, PROBES_NEEDED);
	assert_true(seconds(100, &o) <= 0.5);
	assert_int_equal(o.what, BUDGET_WATCH);
}

/* Between half of the budget and all of it nothing happens. */
static void hysteresis(void **state)
{
	struct budget_order o;

	(void)state;
	j.rate[0][PROBES_NEEDED] = 1800;
	j.rate[0][PROBES_POLLS] = 50000;
	assert_true(seconds(10, &o) > 0);
	assert_true(seconds(1000, &o) < 0);
	j.rate[0][PROBES_NEEDED] = 1000;
	assert_true(seconds(100, &o) >= 60);
	assert_int_equal(o.what, BUDGET_BACK);
}

/* Matched by count: half of them would be wrong. */
static void posts_never_come_back(void **state)
{
	struct budget_order o;

	(void)state;
	j.rate[0][PROBES_POSTS] = 90000;
	assert_true(seconds(10, &o) > 0);
	assert_int_equal(o.group, PROBES_POSTS);
	assert_true(seconds(3000, &o) < 0);
}

/* --- admission --- */

/* A process that ran before: group by group, a quarter of a second each while there is room. */
static void admitted_in_order(void **state)
{
	static const enum probe_group order[] = { PROBES_CALLS, PROBES_EVENTS, PROBES_POLLS,
						  PROBES_GC,    PROBES_RANGES, PROBES_BURST };
	struct budget_order o;

	(void)state;
	j.attached[0] = ALL & ~BUDGET_HELD;
	for (int i = 0; i < PROBE_GROUPS; i++)
		j.rate[0][i] = 100;
	for (int i = 0; i < 6; i++) {
		assert_true(seconds(10, &o) <= 0.5);
		assert_int_equal(o.what, BUDGET_BACK);
		assert_true(o.quiet);
		assert_int_equal(o.group, order[i]);
	}
	assert_true(seconds(100, &o) < 0);
	assert_int_equal(j.attached[0], ALL);
	assert_int_equal(budget_sums(j.g)->n_back, 0);
}

/* Half of the budget is used: a second each. Above it, none is added. */
static void admitted_slowly(void **state)
{
	struct budget_order o;

	(void)state;
	j.attached[0] = ALL & ~BUDGET_HELD;
	j.rate[0][PROBES_NEEDED] = 2000;
	assert_true(seconds(10, &o) > 0);
	for (int i = 0; i < 3; i++)
		assert_true(seconds(10, &o) == 1);
	j.attached[0] = ALL & ~BUDGET_HELD;
	j.rate[0][PROBES_NEEDED] = 2600;
	assert_true(seconds(2, &o) < 0);
}

/* The dear one goes in the sample after it came; those behind it come all the same. */
static void trial_fails(void **state)
{
	struct budget_order o;

	(void)state;
	j.attached[0] = ALL & ~BUDGET_HELD;
	j.rate[0][PROBES_NEEDED] = 200;
	j.rate[0][PROBES_EVENTS] = 137000;
	assert_true(seconds(10, &o) > 0 && o.group == PROBES_CALLS);
	assert_true(seconds(10, &o) == 0.25 && o.group == PROBES_EVENTS && o.what == BUDGET_BACK);
	assert_true(seconds(10, &o) == 0.25 && o.group == PROBES_EVENTS && o.what == BUDGET_SHED);
	assert_int_equal(o.shed, 1u << PROBES_EVENTS);
	assert_true(seconds(10, &o) <= 1 && o.group == PROBES_POLLS && o.what == BUDGET_BACK);
	assert_int_equal(o.shed, 1u << PROBES_EVENTS);
	assert_true(seconds(10, &o) <= 1 && o.group == PROBES_GC);
	assert_true(seconds(10, &o) <= 1 && o.group == PROBES_RANGES);
	assert_true(seconds(10, &o) <= 1 && o.group == PROBES_BURST);
	assert_true(j.worst_above_ns <= 500 * MS);
}

/* --- the budget of all --- */

/* Each within its budget, all together not: whoever is hit most gives first, until it is enough. */
static void node_budget(void **state)
{
	const struct budget_cfg cfg = { .price_ns = PRICE_NS, .budget_ppm = 10000, .node_ppm = 20000 };
	struct budget_order o;

	(void)state;
	job_be(&cfg, 4);
	for (int p = 0; p < 4; p++) {
		j.rate[p][PROBES_NEEDED] = 400;
		j.rate[p][PROBES_POLLS] = 1000 + 100 * p;
	}
	assert_true(seconds(30, &o) > 8);
	assert_true(o.of_node && o.what == BUDGET_SHED && o.group == PROBES_POLLS);
	assert_int_equal(o.tgid, 103);
	assert_int_equal(o.budget_ppm, 20000);
	assert_in_range(o.hits_per_s, 1690, 1710);
	assert_int_equal(o.hit_ns, COST_NS);
	assert_in_range(o.node_hits_per_s, 6190, 6210);
	assert_true(seconds(1000, &o) < 0); /* enough, and too much for anything to come back */
}

/* No group is left but what is needed: the process that pays most is the first that is watched from outside. */
static void node_budget_needed(void **state)
{
	const struct budget_cfg cfg = { .price_ns = PRICE_NS, .node_ppm = 10000 };
	struct budget_order o[32];
	int n;

	(void)state;
	job_be(&cfg, 3);
	j.rate[0][PROBES_NEEDED] = 9000;
	j.rate[1][PROBES_NEEDED] = 8000;
	j.rate[2][PROBES_NEEDED] = 900;
	while (!(n = quarter(o, 32)))
		;
	assert_int_equal(n, 2);
	assert_true(o[0].of_node && o[0].what == BUDGET_WATCH && o[0].tgid == 100);
	assert_true(o[1].of_node && o[1].what == BUDGET_WATCH && o[1].tgid == 101);
	for (int i = 0; i < 40; i++)
		assert_int_equal(quarter(o, 32), 0);
}

/* Where probes cannot be taken from one process, what one gives all give, also one that comes later. */
static void shared(void **state)
{
	struct budget_cfg cfg = one_percent;
	struct budget_order o;

	(void)state;
	cfg.shared = true;
	job_be(&cfg, 2);
	j.rate[0][PROBES_EVENTS] = 60000; /* both pay too much: one order is enough */
	j.rate[0][PROBES_POLLS] = 100;
	j.rate[1][PROBES_EVENTS] = 90000;
	assert_true(seconds(10, &o) <= 1.5);
	assert_true(o.what == BUDGET_SHED && o.group == PROBES_EVENTS);
	j.n = 3;
	j.attached[2] = j.attached[0];
	assert_true(seconds(10, &o) < 0);
	assert_true(seconds(100, &o) > 0);
	assert_true(o.what == BUDGET_BACK && o.group == PROBES_EVENTS && !o.shed);
	assert_true(seconds(10, &o) <= 0.5);
	assert_int_equal(o.what, BUDGET_SHED);
	assert_true(seconds(100, &o) < 0);
}

/* What a process paid when the group was back the last time does not count against the next trial. */
static void shared_trials_begin_anew(void **state)
{
	struct budget_cfg cfg = one_percent;
	struct budget_order o;

	(void)state;
	cfg.shared = true;
	job_be(&cfg, 2);
	j.rate[0][PROBES_EVENTS] = 60000;
	assert_true(seconds(10, &o) <= 1.5);
	assert_true(seconds(100, &o) > 0);
	assert_int_equal(o.what, BUDGET_BACK);
	assert_true(seconds(10, &o) <= 0.5);
	assert_int_equal(o.what, BUDGET_SHED);
	j.rate[0][PROBES_EVENTS] = 100; /* it does something else now */
	assert_true(seconds(300, &o) > 0);
	assert_int_equal(o.what, BUDGET_BACK);
	assert_true(seconds(10, &o) < 0);
}

/* Not probed for a while: nothing comes back then, and what went is remembered. */
static void unprobed_for_a_while(void **state)
{
	struct budget_order o;

	(void)state;
	j.rate[0][PROBES_NEEDED] = 10;
	j.rate[0][PROBES_POLLS] = 50000;
	assert_true(seconds(10, &o) > 0);
	j.unprobed = true;
	assert_true(seconds(500, &o) < 0);
	j.unprobed = false;
	j.rate[0][PROBES_CALLS] = 50000;
	assert_true(seconds(10, &o) > 0);
	assert_int_equal(o.shed, 1u << PROBES_POLLS | 1u << PROBES_CALLS);
}

/* What is dear goes, not what is hit often. */
static void price_counts(void **state)
{
	struct budget_sample l = { .tgid = 100, .probed = true };
	struct budget_rules *g = budget_rules_new(&one_percent);
	struct budget_order o = { 0 };

	(void)state;
	for (int i = 1; i < 40 && !o.shed; i++) {
		l.hits[PROBES_POLLS] += 12500; /* of 16 ns */
		l.paid[PROBES_POLLS] += 12500;
		l.hits[PROBES_CALLS] += 1250; /* of 16 us */
		l.paid[PROBES_CALLS] += 1250000;
		budget_sample_begin(g, i * SAMPLE_NS);
		assert_int_equal(budget_sample_note(g, &l), 0);
		budget_sample_end(g);
		budget_next(g, &o);
	}
	assert_int_equal(o.group, PROBES_CALLS);
	assert_int_equal(o.hits_per_s, 55000);
	assert_int_equal(o.hit_ns, (50000 * 16 + 5000000 * 16) / 55000);
	budget_rules_free(g);
}

/* Counters that begin anew, or wrap, are no burst; another process under the same number starts with all its probes. */
static void counters(void **state)
{
	struct budget_sample l = { .tgid = 100, .start_ns = 7, .probed = true };
	struct budget_rules *g = budget_rules_new(&one_percent);
	struct budget_order o;
	uint64_t now_ns = S;

	(void)state;
	l.hits[PROBES_POLLS] = UINT32_MAX - 3000;
	for (int i = 0; i < 160; i++) {
		l.hits[PROBES_POLLS] += 250;
		l.hits[PROBES_NEEDED] += 1;
		if (i == 80)
			memset(l.hits, 0, sizeof(l.hits));
		for (int k = 0; k < PROBE_GROUPS; k++)
			l.paid[k] = l.hits[k] * (COST_NS / PRICE_NS);
		budget_sample_begin(g, now_ns += SAMPLE_NS);
		assert_int_equal(budget_sample_note(g, &l), 0);
		budget_sample_end(g);
		assert_false(budget_next(g, &o));
	}
	assert_true(budget_sums(g)->hits <= 159 * 251);
	for (int i = 0; i < 10; i++) {
		l.hits[PROBES_POLLS] += 100000;
		l.paid[PROBES_POLLS] = l.hits[PROBES_POLLS] * (COST_NS / PRICE_NS);
		if (i == 7)
			l = (struct budget_sample){ .tgid = 100, .start_ns = 8, .probed = true };
		budget_sample_begin(g, now_ns += SAMPLE_NS);
		assert_int_equal(budget_sample_note(g, &l), 0);
		budget_sample_end(g);
		assert_true(!budget_next(g, &o) || (i < 7 && o.shed));
	}
	budget_sample_begin(g, now_ns += SAMPLE_NS); /* it is gone */
	budget_sample_end(g);
	assert_false(budget_next(g, &o));
	budget_rules_free(g);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, job_begin, job_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(within_budget),
		TEST(order_of_shedding),
		TEST(only_what_is_dear),
		TEST(evidence_for_its_cost),
		TEST(needed_alone_is_dear),
		TEST(spikes_do_not_count),
		TEST(unsteady_loads_count),
		TEST(little_over_takes_longer),
		TEST(comes_back_a_few_times),
		TEST(comes_back_from_watch),
		TEST(needed_on_trial),
		TEST(hysteresis),
		TEST(posts_never_come_back),
		TEST(admitted_in_order),
		TEST(admitted_slowly),
		TEST(trial_fails),
		TEST(node_budget),
		TEST(node_budget_needed),
		TEST(shared),
		TEST(shared_trials_begin_anew),
		TEST(unprobed_for_a_while),
		TEST(price_counts),
		TEST(counters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
