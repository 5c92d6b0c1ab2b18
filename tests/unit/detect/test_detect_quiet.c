/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_quiet.c - the unusual phases of a healthy job, and plain health: observations at most, no finding.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

static const int layouts[][3] = { { 1, 2, 1 }, { 1, 8, 1 }, { 2, 2, 2 }, { 4, 2, 1 }, { 1, 4, 2 }, { 2, 1, 4 } };
#define N_LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

static void expect_quiet(const struct job_opts *o)
{
	struct job *j = job_new(o);
	struct verdicts v;
	int exits = 0;

	job_play(j, &v, NULL, NULL);
	for (size_t i = 0; i < v.n; i++)
		exits += v.all[i].worst >= SEVERITY_WARNING;
	if (exits) {
		printf("tp=%d dp=%d pp=%d seed=%llu ahead=%d check=%d\n", o->tp, o->dp, o->pp,
		       (unsigned long long)o->seed, o->run_ahead, o->check_sync);
		verdicts_print(&v);
	}
	assert_int_equal(exits, 0);
	verdicts_free(&v);
	job_free(j);
}

static void each_mode(uint64_t *rng, struct fault f, double first_s, int steps)
{
	for (size_t i = 0; i < N_LAYOUTS; i++)
		for (int mode = 0; mode < 3; mode++) {
			struct job_opts o = job_usual(layouts[i][0], layouts[i][1], layouts[i][2], random_next(rng));

			o.steps = steps;
			o.run_ahead = mode > 0;
			o.check_sync = mode == 2;
			o.grouped = random_next(rng) % 2;
			o.first_s = first_s;
			o.faults[0] = f;
			o.faults[0].rank = f.kind == FAULT_LOG ? 0 : random_next(rng) % o.ranks;
			expect_quiet(&o);
		}
}

static void test_health(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	each_mode(&rng, (struct fault){ 0 }, 0, 200);
}

/* Kernels that vary by +-10 %. Seeds are fixed: of 2,400 such jobs of drawn seeds one names a rank, by luck. */
static void test_natural_variation(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct job_opts o = job_usual(1, seed % 3 ? 2 : 8, 1, seed);

		o.steps = 100;
		o.jitter = 0.1;
		expect_quiet(&o);
	}
}

static void test_slow_first_step(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	each_mode(&rng, (struct fault){ 0 }, 6, 30);
}

/* In the first operations nothing is known of what is usual. */
static void test_warm_up_is_patient(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	each_mode(&rng, (struct fault){ FAULT_HANG, 0, 1, 0, 12, 2 }, 0, 30);
}

static void test_evaluation_without_collectives(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	each_mode(&rng, (struct fault){ FAULT_EVAL, 0, 15, 0, 25, 1 }, 0, 40);
}

static void test_compile_and_checkpoint_of_one_rank(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	each_mode(&rng, (struct fault){ FAULT_BUSY, 0, 15, 0, 60, 2 }, 0, 40);
	each_mode(&rng, (struct fault){ FAULT_IO, 0, 15, 0, 40, 2 }, 0, 40);
}

static void test_rank_0_logs_more(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	each_mode(&rng, (struct fault){ FAULT_LOG, 0, 0, 30, 0, 0 }, 0, 60);
}

static void test_elastic_restart(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	each_mode(&rng, (struct fault){ FAULT_RESTART, 0, 12, 0, 0, 0 }, 0, 30);
}

static void test_attached_late(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	for (size_t i = 0; i < N_LAYOUTS; i++)
		for (int k = 0; k < 6; k++) {
			struct job_opts o = job_usual(layouts[i][0], layouts[i][1], layouts[i][2], random_next(&rng));

			o.steps = 40;
			o.attach_step = 5 + k;
			o.run_ahead = k % 2;
			o.grouped = k % 3 == 0;
			expect_quiet(&o);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_health),
		cmocka_unit_test(test_natural_variation),
		cmocka_unit_test(test_slow_first_step),
		cmocka_unit_test(test_warm_up_is_patient),
		cmocka_unit_test(test_evaluation_without_collectives),
		cmocka_unit_test(test_compile_and_checkpoint_of_one_rank),
		cmocka_unit_test(test_rank_0_logs_more),
		cmocka_unit_test(test_elastic_restart),
		cmocka_unit_test(test_attached_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
