/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_tier.c - probes that are taken from a process: what was seen of its calls ends there, what is sampled goes
 * on, and what still comes of its probes is of before.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

enum { CALLED = 0xa0, SAMPLED = 0xb0 };

static struct model *m;
static uint64_t now;

static void give(struct event e)
{
	e.ts_ns = now += MSEC;
	assert_int_equal(model_apply(m, &e), 0);
}

static const struct proc *rank(int r)
{
	return model_proc(m, proc_key(0, job_pid(r)));
}

static const struct member *member_of(int r, uint64_t hash)
{
	const struct member *mb = rank(r)->members;

	while (mb && (mb->comm->hash != hash || mb->gone))
		mb = mb->next_in_proc;
	return mb;
}

static void op(int r, int depth)
{
	struct event e = job_call_event(r, OP_ALLREDUCE, CALLED, 1, 64);

	e.op.group_depth = depth;
	give(e);
}

static void seen(int r)
{
	struct event e = job_seen_event(r, 2, CALLED, CALLED);

	e.comm_seen.counters_valid = true;
	give(e);
}

static void sample(int r)
{
	struct event e = job_event(EV_COMM_SAMPLE, r, 0);

	e.comm_sample.comm = e.comm_sample.hash = SAMPLED;
	e.comm_sample.rank = r;
	e.comm_sample.nranks = 2;
	e.comm_sample.n_counters = OP_KINDS_COUNTED;
	give(e);
}

static void tier(int r, int before, int to)
{
	struct event e = job_event(EV_TIER, r, 0);

	e.tier.before = before;
	e.tier.tier = to;
	give(e);
}

/* Two ranks that called, wait for their streams, and are in a communicator that is only sampled, too. */
static int setup(void **state)
{
	(void)state;
	m = model_new();
	now = JOB_T0;
	for (int r = 0; r < 2; r++) {
		give(job_proc_event(r, 2, now));
		seen(r);
		sample(r);
		op(r, 0);
		give(job_wait_event(r, 1));
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	model_free(m);
	return 0;
}

static void what_was_called_is_over(void **state)
{
	(void)state;
	tier(0, 1, 0);
	assert_null(member_of(0, CALLED));
	assert_non_null(member_of(0, SAMPLED));
	assert_null(rank(0)->calls);
	assert_false(proc_waits(rank(0)));
	assert_null(rank(0)->streams);
	assert_non_null(member_of(1, CALLED)); /* another process is another matter */
	assert_true(proc_waits(rank(1)));
	assert_non_null(rank(1)->streams);
}

static void fewer_probes_are_not_none(void **state)
{
	(void)state;
	tier(0, 2, 1);
	assert_non_null(member_of(0, CALLED));
	assert_true(proc_waits(rank(0)));
}

/* It had none: there is nothing that could end. */
static void one_that_had_no_probes_loses_nothing(void **state)
{
	(void)state;
	tier(0, 0, 0);
	assert_non_null(member_of(0, CALLED));
	assert_true(proc_waits(rank(0)));
}

static void what_still_comes_of_its_probes_does_not_count(void **state)
{
	uint64_t n = rank(0)->n_ops, other = rank(1)->n_ops;

	(void)state;
	tier(0, 1, 0);
	op(0, 0);
	op(1, 0);
	assert_int_equal(rank(0)->n_ops, n);
	assert_int_equal(rank(1)->n_ops, other + 1);
	tier(0, 0, 1);
	seen(0);
	op(0, 0);
	assert_int_equal(rank(0)->n_ops, n + 1);
	assert_non_null(member_of(0, CALLED));
}

/* A group whose end nobody sees any more. */
static void an_open_group_ends_with_the_probes(void **state)
{
	struct event e = job_event(EV_GROUP_START, 0, 0);

	(void)state;
	give(e);
	op(0, 1);
	assert_int_equal(member_of(0, CALLED)->n_pending, 1);
	tier(0, 1, 0);
	tier(0, 0, 1);
	seen(0);
	op(0, 0);
	assert_int_equal(member_of(0, CALLED)->n_pending, 0);
	assert_int_equal(member_of(0, CALLED)->n_ops, 1);
	assert_true(member_of(0, CALLED)->ops->enqueue_ns);
}

static void a_process_that_is_dead_or_unknown_has_no_tier(void **state)
{
	struct event e = job_event(EV_EXIT, 0, 0);

	(void)state;
	tier(7, 1, 0);
	assert_null(rank(7));
	e.exit.last = true;
	give(e);
	tier(0, 1, 0);
	assert_non_null(member_of(0, CALLED)); /* what it was in when it died is evidence */
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_was_called_is_over),
		TEST(fewer_probes_are_not_none),
		TEST(one_that_had_no_probes_loses_nothing),
		TEST(what_still_comes_of_its_probes_does_not_count),
		TEST(an_open_group_ends_with_the_probes),
		TEST(a_process_that_is_dead_or_unknown_has_no_tier),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
