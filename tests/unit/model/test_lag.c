/* SPDX-License-Identifier: Apache-2.0
 *
 * test_lag.c - how long the peers of a late rank wait before that is worth a report, where calls are seen: what a
 * communicator is used to, and what it is not used to by a single pause.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

#define N 2
#define STEP_NS (100 * MSEC)
#define WARM_OPS 1100 /* whatever their order */

static struct model *m;
static uint64_t now, n_ops[N], rng;

static void give(struct event e)
{
	assert_int_equal(model_apply(m, &e), 0);
}

static int fresh(void **state)
{
	(void)state;
	now = JOB_T0;
	rng = 7;
	m = model_new();
	m->hang_floor_ns = 1500 * MSEC;
	for (int r = 0; r < N; r++)
		give(job_proc_event(r, N, now));
	return 0;
}

static int done(void **state)
{
	(void)state;
	model_free(m);
	return 0;
}

static void comm_make(uint64_t hash)
{
	for (int r = 0; r < N; r++) {
		struct event e = job_ready_event(r, N, hash, hash);

		e.ts_ns = now;
		give(e);
		n_ops[r] = 0;
	}
}

static void comm_end(uint64_t hash)
{
	for (int r = 0; r < N; r++) {
		struct event e = job_event(EV_COMM_GONE, r, now);

		e.comm_gone.addr = hash;
		give(e);
	}
}

/* Rank 1 comes `late_ns` after rank 0. */
static void op(uint64_t hash, uint64_t count, uint64_t late_ns)
{
	now += STEP_NS;
	for (int r = 0; r < N; r++) {
		struct event e = job_call_event(r, OP_ALLREDUCE, hash, 5, count);

		e.ts_ns = now;
		e.op.counters_valid = true;
		e.op.counters_sum = n_ops[r]++;
		give(e);
		now += r ? 0 : late_ns;
	}
}

static uint64_t limit_ns(uint64_t hash)
{
	for (const struct comm *c = m->comms; c; c = c->next)
		if (c->hash == hash)
			return comm_lag_limit_ns(m, c);
	return 0;
}

/* No two steps are alike: no iterations are known. */
static void ops_drawn(uint64_t hash, int n)
{
	for (int i = 0; i < n; i++)
		op(hash, 1 + random_next(&rng) % 1000, MSEC);
}

static void a_job_without_iterations_is_warm_some_day(void **state)
{
	(void)state;
	comm_make(0xa);
	ops_drawn(0xa, 900);
	assert_int_equal(limit_ns(0xa), COMM_WARMUP_NS);
	ops_drawn(0xa, WARM_OPS - 900);
	assert_int_equal(limit_ns(0xa), m->hang_floor_ns);
}

/* They loaded and compiled when the first ones were there. */
static void communicators_made_anew_are_warm_at_once(void **state)
{
	(void)state;
	comm_make(0xa);
	ops_drawn(0xa, WARM_OPS);
	comm_end(0xa);
	comm_make(0xb);
	ops_drawn(0xb, 2);
	assert_int_equal(limit_ns(0xb), COMM_WARMUP_NS);
	ops_drawn(0xb, 6);
	assert_int_equal(limit_ns(0xb), m->hang_floor_ns);
}

/* Each pause is shorter than what would be reported after the one before it. */
static void a_pause_allows_for_no_longer_one(void **state)
{
	static const double pauses_s[] = { 1.4, 3.9, 6.5, 15, 40 };

	(void)state;
	comm_make(0xa);
	ops_drawn(0xa, WARM_OPS);
	for (size_t i = 0; i < sizeof(pauses_s) / sizeof(pauses_s[0]); i++) {
		op(0xa, 1, (uint64_t)(pauses_s[i] * SEC));
		assert_true(limit_ns(0xa) <= 4 * SEC);
		ops_drawn(0xa, 100);
	}
}

/* What one operation in twenty waits for is how the job is. */
static void what_recurs_is_a_habit(void **state)
{
	(void)state;
	comm_make(0xa);
	ops_drawn(0xa, WARM_OPS);
	for (int i = 0; i < 80; i++) {
		op(0xa, 1, 6 * SEC);
		ops_drawn(0xa, 19);
	}
	assert_true(limit_ns(0xa) > 9 * SEC && limit_ns(0xa) < 11 * SEC);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(a_job_without_iterations_is_warm_some_day),
		TEST(communicators_made_anew_are_warm_at_once),
		TEST(a_pause_allows_for_no_longer_one),
		TEST(what_recurs_is_a_habit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
