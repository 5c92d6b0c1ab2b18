/* SPDX-License-Identifier: Apache-2.0
 *
 * test_steps.c - the iteration clock: the period of the signature sequence, through layers alike, warm-up and
 * interruptions, and where all operations are alike by the pauses between them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

struct clock {
	struct model *m;
	uint64_t t, rng;
	bool even; /* no operation takes longer than another */
};

static struct clock clock_new(void)
{
	return (struct clock){ .m = model_new(), .t = JOB_T0, .rng = test_seed() };
}

/* One letter an operation of its own size; '.' a pause of 100 ms. */
static void run(struct clock *c, int rank, const char *ops, int times)
{
	for (int i = 0; i < times; i++)
		for (const char *p = ops; *p; p++) {
			struct event e = job_event(EV_OP, rank,
						   c->t += MSEC + (c->even ? 0 : random_next(&c->rng) % (MSEC / 4)));

			if (*p == '.') {
				c->t += 100 * MSEC;
				e.kind = EV_TICK;
			} else {
				e.op.addr = 7;
				e.op.count = *p;
				e.op.op = OP_ALLREDUCE;
			}
			assert_int_equal(model_apply(c->m, &e), 0);
		}
}

static const struct steps *steps_of(struct clock *c, int rank)
{
	struct event e = job_event(EV_TICK, rank, c->t += MSEC);

	assert_int_equal(model_apply(c->m, &e), 0);
	return model_proc(c->m, job_pid(rank))->steps;
}

static void test_period_needs_three_repeats(void **state)
{
	struct clock c = clock_new();

	(void)state;
	run(&c, 0, "abcd", 2);
	assert_int_equal(steps_of(&c, 0)->period_ops, 0);
	run(&c, 0, "abcd", 1);
	assert_int_equal(steps_of(&c, 0)->period_ops, 4);
	run(&c, 0, "abcd", 7);
	assert_int_equal(steps_of(&c, 0)->n, 7);
	assert_true(steps_of(&c, 0)->median_s > 0.004 && steps_of(&c, 0)->median_s < 0.006);
	model_free(c.m);
}

/* A job's last operation is another one than its steps have: what held is still to be had. */
static void test_the_last_that_held_is_kept(void **state)
{
	struct clock c = clock_new();
	const struct proc *p;

	(void)state;
	run(&c, 0, "abcd", 3);
	steps_of(&c, 0);
	run(&c, 0, "abcd", 40);
	assert_int_equal(steps_of(&c, 0)->n, 40);
	p = model_proc(c.m, job_pid(0));
	assert_int_equal(rank_steps_last(p, 0)->n, 40);
	run(&c, 0, "e", 1);
	assert_int_equal(steps_of(&c, 0)->period_ops, 0);
	assert_int_equal(rank_steps_last(p, 0)->period_ops, 4);
	assert_int_equal(rank_steps_last(p, 0)->n, 40);
	run(&c, 0, "abc", 3); /* after evaluation another one */
	assert_int_equal(steps_of(&c, 0)->period_ops, 3);
	assert_int_equal(rank_steps_last(p, 0)->period_ops, 3);
	model_free(c.m);
}

static void test_layers_alike_are_no_step(void **state)
{
	struct clock c = clock_new();

	(void)state;
	run(&c, 0, "aaaaaaaa.aaaaaaaab", 1);
	run(&c, 0, "aaaaaaaa.aaaaaaaab", 5);
	assert_int_equal(steps_of(&c, 0)->period_ops, 17);
	run(&c, 0, "aaaa.", 1); /* in the middle of a step, too */
	assert_int_equal(steps_of(&c, 0)->period_ops, 17);
	model_free(c.m);
}

static void test_alike_buckets_are_reported_by_the_pauses(void **state)
{
	struct clock c = clock_new();

	(void)state;
	run(&c, 0, "aaa.", 30);
	assert_int_equal(steps_of(&c, 0)->period_ops, 3);
	assert_int_equal(steps_of(&c, 0)->phase, 0); /* a step begins behind the pause */
	model_free(c.m);
	c = clock_new();
	run(&c, 0, "a.", 60); /* one a step: no pattern in the pauses */
	assert_int_equal(steps_of(&c, 0)->period_ops, 1);
	model_free(c.m);
}

static void test_warm_up_and_interruption(void **state)
{
	struct clock c = clock_new();

	(void)state;
	run(&c, 0, "xyzzw", 1);
	run(&c, 0, "abc.", 40);
	assert_int_equal(steps_of(&c, 0)->period_ops, 3);
	run(&c, 0, "qr.", 1); /* an evaluation */
	run(&c, 0, "abc.", 5);
	assert_int_equal(steps_of(&c, 0)->period_ops, 3);
	model_free(c.m);
}

/* A clock that was found on 16 operations is checked again at 32. What came before a clock that held is no part of
 * that: it says nothing about the new one. */
static void test_checked_again_when_its_own_history_has_doubled(void **state)
{
	(void)state;
	for (int one_before = 0; one_before < 2; one_before++) {
		struct clock c = clock_new();

		c.even = true;
		if (one_before) {
			run(&c, 0, "abcd", 3);
			steps_of(&c, 0);
			run(&c, 0, "abcd", 40);
			assert_int_equal(steps_of(&c, 0)->n, 40);
		}
		run(&c, 0, "x", 16);
		assert_int_equal(steps_of(&c, 0)->period_ops, 1);
		run(&c, 0, ".xxx", 5);
		assert_int_equal(steps_of(&c, 0)->period_ops, 1);
		run(&c, 0, ".x", 1);
		assert_int_equal(steps_of(&c, 0)->period_ops, 3);
		model_free(c.m);
	}
}

/* Equal iterations are one role, wherever the clock happened to be found; phases point at the same operation. */
static void test_roles_do_not_depend_on_where_it_was_found(void **state)
{
	struct clock c = clock_new();

	(void)state;
	run(&c, 0, "abac", 5);
	run(&c, 1, "c", 1);
	run(&c, 1, "abac", 5);
	run(&c, 2, "abad", 5);
	assert_true(steps_of(&c, 0)->role == steps_of(&c, 1)->role);
	assert_true(steps_of(&c, 0)->role != steps_of(&c, 2)->role);
	assert_int_equal((steps_of(&c, 0)->phase + 1) % 4, steps_of(&c, 1)->phase);
	model_free(c.m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_period_needs_three_repeats),
		cmocka_unit_test(test_the_last_that_held_is_kept),
		cmocka_unit_test(test_layers_alike_are_no_step),
		cmocka_unit_test(test_alike_buckets_are_reported_by_the_pauses),
		cmocka_unit_test(test_warm_up_and_interruption),
		cmocka_unit_test(test_checked_again_when_its_own_history_has_doubled),
		cmocka_unit_test(test_roles_do_not_depend_on_where_it_was_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
