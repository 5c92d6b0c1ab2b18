/* SPDX-License-Identifier: Apache-2.0
 *
 * test_steps_table.c - ranks by phases: medians where they belong, the slowest rank marked where it stands out, ranks
 * that took no step meanwhile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "compare/steps_table.h"

#define N_RANKS 4

static void add(struct measures *m, enum measure_kind kind, int rank, const char *what, double s)
{
	struct measure *one = measures_add(m, kind, rank, what, "");

	assert_non_null(one);
	for (int i = 0; i < 5; i++)
		assert_int_equal(durations_put(&one->s, i == 4 ? 9 : s), 0); /* one outlier of five */
}

static int column(const char *name)
{
	for (int i = 0; i < STEPS_COLUMNS; i++)
		if (!strcmp(steps_column_name(i), name))
			return i;
	fail_msg("no column %s", name);
	return 0;
}

/* Rank 2's backward takes 12 ms more, for which the others wait. */
static void job(struct measures *m)
{
	*m = (struct measures){ 0 };
	for (int r = N_RANKS - 1; r >= 0; r--) {
		add(m, MEASURE_STEP, r, "step", 0.100 + 0.0001 * r);
		add(m, MEASURE_PHASE, r, "forward", 0.020);
		add(m, MEASURE_PHASE, r, "backward", r == 2 ? 0.052 : 0.040);
		add(m, MEASURE_PHASE, r, "optimizer", r == 1 ? 0.0004 : 0.0001); /* far from 1 % of a step */
		add(m, MEASURE_PHASE, r, "gpu_wait", r == 3 ? 0.042 : 0.012);
	}
	add(m, MEASURE_OPERATION, -1, "AllReduce 16 MiB", 0.005);
}

static void test_marks(void **state)
{
	struct steps_table t = { 0 };
	struct measures m;

	(void)state;
	job(&m);
	assert_int_equal(steps_table_set(&t, &m), 0);
	assert_int_equal(t.n, N_RANKS);
	assert_true(t.phases);
	for (int r = 0; r < N_RANKS; r++) {
		assert_int_equal(t.rows[r].rank, r);
		assert_int_equal(t.rows[r].n_steps, 5);
		assert_float_equal(t.rows[r].median_s[0], 0.100 + 0.0001 * r, 1e-9);
		assert_float_equal(t.rows[r].median_s[column("late")], -1, 0);
	}
	assert_float_equal(t.rows[2].median_s[column("backward")], 0.052, 1e-9);
	for (int i = 0; i < STEPS_COLUMNS; i++)
		assert_int_equal(t.slowest[i], i == column("backward") ? 2 : STEPS_NO_MARK);
	measures_free(&m);
	steps_table_free(&t);
}

static void test_no_step_meanwhile(void **state)
{
	struct steps_table t = { 0 };
	struct measures m;

	(void)state;
	job(&m);
	assert_int_equal(steps_table_set(&t, &m), 0);
	measures_free(&m);
	add(&m, MEASURE_STEP, 1, "step", 0.2);
	assert_int_equal(steps_table_set(&t, &m), 0);
	assert_int_equal(t.n, N_RANKS);
	assert_int_equal(t.rows[0].n_steps, 0);
	assert_int_equal(t.rows[1].n_steps, 5);
	assert_float_equal(t.rows[0].median_s[0], -1, 0);
	assert_float_equal(t.rows[1].median_s[column("backward")], -1, 0);
	assert_int_equal(t.slowest[0], STEPS_NO_MARK); /* slower than no other */
	measures_free(&m);
	steps_table_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_marks),
		cmocka_unit_test(test_no_step_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
