/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_lag.c - what the communicators of a healthy job are used to: lags as short as they are, of collectives and
 * of transfers, whichever side comes first.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

/* The longest habit of its communicators, in seconds; `*ret_n`: of how many operations at least. */
static double habit_of_job(int tp, int dp, int pp, uint64_t *ret_n)
{
	struct job_opts o = job_usual(tp, dp, pp, 7);
	struct verdicts v;
	struct job *j;
	double most = 0;

	o.steps = 60;
	j = job_new(&o);
	job_play(j, &v, NULL, NULL);
	*ret_n = UINT64_MAX;
	for (const struct comm *c = v.m->comms; c; c = c->next) {
		most = c->lag_habit_s > most ? c->lag_habit_s : most;
		*ret_n = c->n_complete < *ret_n ? c->n_complete : *ret_n;
	}
	verdicts_free(&v);
	job_free(j);
	return most;
}

static void lags_are_within_a_step(void **state)
{
	static const int layouts[][3] = { { 1, 4, 1 }, { 1, 1, 4 }, { 2, 2, 2 } };
	uint64_t n;

	(void)state;
	for (int i = 0; i < 3; i++) {
		double s = habit_of_job(layouts[i][0], layouts[i][1], layouts[i][2], &n);

		if (s <= 0 || s > 0.8 || n < 30)
			fail_msg("tp %d dp %d pp %d: %.3f s, %llu operations", layouts[i][0], layouts[i][1],
				 layouts[i][2], s, (unsigned long long)n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lags_are_within_a_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
