/* SPDX-License-Identifier: Apache-2.0
 *
 * test_own_price.c - what our programs take counts against the budget like the traps that lead to them: the runs that
 * were timed, of this process and group; before there are enough, what is assumed; and no single long run decides.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "session/rules/own_price.h"
#include "tests/unit/budget/budget_samples.h"

#define TRAP_NS 1000 /* as load_add() has it */
#define IDLE_NS 100
#define CLIP_NS 16000
#define EVERY 32 /* one run in so many is timed */

static const struct budget_cfg timed = { .price_ns = PRICE_NS, .budget_ppm = 10000, .idle_ns = IDLE_NS };

static int teardown(void **state)
{
	(void)state;
	budget_rules_free(g);
	return 0;
}

static void runs_add(int p, enum probe_group group, uint32_t n, uint32_t own_ns)
{
	at[p].own_runs[group] += n;
	at[p].own_ns[group] += n * (own_ns + IDLE_NS);
}

/* A quarter of a second in which the process' traps cost so many budgets, and our programs so much a trap. */
static void quarter_add(int p, enum probe_group group, double budgets, uint32_t own_ns)
{
	uint32_t before = at[p].hits[group];

	load_add(p, group, budgets, QUARTER);
	runs_add(p, group, (at[p].hits[group] - before) / EVERY, own_ns);
}

/* The first quarter in which something goes, from 1; 0: nothing in a minute. */
static int goes_with(double budgets, uint32_t own_ns)
{
	sample_at(QUARTER);
	for (int i = 1; i <= 240; i++) {
		quarter_add(0, PROBES_POLLS, budgets, own_ns);
		if (sample_at(QUARTER))
			return i;
	}
	return 0;
}

/* Traps of nine tenths of the budget, and as much again in our programs. */
static void programs_are_paid_for(void **state)
{
	(void)state;
	begin(&timed, 1);
	assert_int_equal(goes_with(0.9, 0), 0);
	budget_rules_free(g);
	begin(&timed, 1);
	assert_in_range(goes_with(0.9, TRAP_NS), 3, 12);
	assert_int_equal(got[0].what, BUDGET_SHED);
	assert_int_equal(got[0].group, PROBES_POLLS);
	assert_in_range(got[0].hit_ns, 1.8 * TRAP_NS, 2 * TRAP_NS);
	assert_in_range(got[0].node_hit_ns, 1.8 * TRAP_NS, 2 * TRAP_NS);
}

/* The sums are traps and programs, each group at its own price. */
static void sums_hold_both(void **state)
{
	const uint32_t n = 1u << 20;

	(void)state;
	begin(&(struct budget_cfg){ .price_ns = PRICE_NS, .idle_ns = IDLE_NS }, 1);
	sample_at(QUARTER);
	hits_add(0, PROBES_POLLS, n, 10);
	runs_add(0, PROBES_POLLS, n / EVERY, 500);
	hits_add(0, PROBES_CALLS, n, 10);
	runs_add(0, PROBES_CALLS, n / EVERY, 3000);
	sample_at(QUARTER);
	assert_int_equal(budget_sums(g)->hits, 2 * n);
	assert_in_range(budget_sums(g)->paid_ns, 0.96 * n * (2 * TRAP_NS + 3500), 1.0 * n * (2 * TRAP_NS + 3500));
	assert_true(budget_sums(g)->peak_ns_per_s > 0.96 * 4 * n * (2 * TRAP_NS + 3500));
}

/* What is assumed holds while nothing was timed, also where nothing ever is. */
static void assumed_until_timed(void **state)
{
	struct budget_cfg cfg = timed;

	(void)state;
	cfg.own_ns = TRAP_NS;
	begin(&cfg, 1);
	sample_at(QUARTER);
	hits_add(0, PROBES_POLLS, 1000, 10);
	sample_at(QUARTER);
	assert_int_equal(budget_sums(g)->paid_ns, 2000 * TRAP_NS);
	hits_add(0, PROBES_POLLS, 1000, 10);
	runs_add(0, PROBES_POLLS, OWN_PRICE_ASSUMED, 3 * TRAP_NS); /* as many as are assumed: half way */
	sample_at(QUARTER);
	assert_int_equal(budget_sums(g)->paid_ns, 5000 * TRAP_NS);
}

/* A job that fits stays as it is, though a run is interrupted now and then: also one of the first that were timed, and
 * one in each second. */
static void no_single_run_decides(void **state)
{
	struct budget_cfg cfg = timed;

	(void)state;
	cfg.own_ns = TRAP_NS;
	begin(&cfg, 1);
	sample_at(QUARTER);
	for (int i = 0; i < 240; i++) {
		quarter_add(0, PROBES_POLLS, 0.45, 800);
		if (i % 4 == 0)
			at[0].own_ns[PROBES_POLLS] += CLIP_NS;
		assert_int_equal(sample_at(QUARTER), 0);
	}
	assert_true(budget_sums(g)->peak_ns_per_s < 1e7);
}

/* Another process, whose programs run as long as a run may take, changes nothing for this one. */
static void each_pays_its_own(void **state)
{
	(void)state;
	begin(&timed, 2);
	sample_at(QUARTER);
	for (int i = 0; i < 240; i++) {
		quarter_add(0, PROBES_POLLS, 0.45, 500);
		if (!at[1].missing)
			quarter_add(1, PROBES_POLLS, 0.45, CLIP_NS - IDLE_NS);
		if (sample_at(QUARTER))
			assert_int_equal(got[0].tgid, 101);
	}
	assert_true(at[1].missing);
	assert_false(at[0].missing);
}

/* A job whose programs become slower (another phase, colder caches) is priced by that within seconds. */
static void newest_runs_count(void **state)
{
	uint64_t before_ns;

	(void)state;
	begin(&(struct budget_cfg){ .price_ns = PRICE_NS, .idle_ns = IDLE_NS }, 1);
	sample_at(QUARTER);
	for (int i = 0; i < 2000; i++) {
		quarter_add(0, PROBES_POLLS, 1, 500);
		sample_at(QUARTER);
	}
	for (int i = 0; i < 80; i++) {
		quarter_add(0, PROBES_POLLS, 1, 1500);
		sample_at(QUARTER);
	}
	before_ns = budget_sums(g)->paid_ns;
	quarter_add(0, PROBES_POLLS, 1, 1500);
	sample_at(QUARTER);
	assert_in_range(budget_sums(g)->paid_ns - before_ns, 2500 * (2500 - 100), 2500 * 2500);
}

/* Counters wrap, and runs of which nothing is left beyond what a trap holds cost nothing. */
static void counters_wrap(void **state)
{
	(void)state;
	begin(&timed, 1);
	at[0].own_runs[PROBES_POLLS] = UINT32_MAX - 5;
	at[0].own_ns[PROBES_POLLS] = UINT32_MAX - 5;
	sample_at(QUARTER);
	hits_add(0, PROBES_POLLS, 1000, 10);
	runs_add(0, PROBES_POLLS, OWN_PRICE_ASSUMED, 1000);
	sample_at(QUARTER);
	assert_int_equal(budget_sums(g)->paid_ns, 1000 * TRAP_NS + 1000 * 500);
	hits_add(0, PROBES_CALLS, 1000, 10);
	at[0].own_runs[PROBES_CALLS] += 100;
	at[0].own_ns[PROBES_CALLS] += 50 * IDLE_NS;
	sample_at(QUARTER);
	assert_int_equal(budget_sums(g)->paid_ns, 2000 * TRAP_NS + 1000 * 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(programs_are_paid_for, teardown),
		cmocka_unit_test_teardown(sums_hold_both, teardown),
		cmocka_unit_test_teardown(assumed_until_timed, teardown),
		cmocka_unit_test_teardown(no_single_run_decides, teardown),
		cmocka_unit_test_teardown(each_pays_its_own, teardown),
		cmocka_unit_test_teardown(newest_runs_count, teardown),
		cmocka_unit_test_teardown(counters_wrap, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
