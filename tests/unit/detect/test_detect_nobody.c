/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_nobody.c - jobs that are uneven without a fault: garbage collection on random ranks, a heavier last
 * pipeline stage, random sequence lengths. Nobody is to be named. SWEEP=n plays n seeds of each case, FIRST=m from m
 * on, and prints how many named somebody. SHORT=1: one seed of each (make mutate).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

static const int layouts[][3] = { { 1, 8, 1 }, { 1, 2, 1 }, { 1, 4, 2 }, { 2, 2, 2 }, { 1, 2, 4 }, { 4, 2, 1 } };
#define N_LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))
#define SEEDS 4 /* of each case; all fixed: see docs/decisions/tests.md, 15 */

struct uneven {
	const char *name;
	double gc_share, gc_s, last_stage, lengths;
};

static const struct uneven cases[] = {
	{ "gc 20 % of steps, up to 30 % of a step", 0.2, 0.12, 0, 0 },
	{ "gc 5 % of steps, up to a step", 0.05, 0.4, 0, 0 },
	{ "last stage +30 %", 0, 0, 0.3, 0 },
	{ "lengths +-10 %", 0, 0, 0, 0.1 },
	{ "lengths +-30 %", 0, 0, 0, 0.3 },
	{ "last stage +30 %, lengths +-30 %, gc", 0.05, 0.2, 0.3, 0.3 },
};
#define N_CASES (sizeof(cases) / sizeof(cases[0]))

static int named(const struct uneven *u, const int *layout, int mode, uint64_t seed, bool print)
{
	struct job_opts o = job_usual(layout[0], layout[1], layout[2], seed);
	struct verdicts v;
	struct job *j;
	int n = 0;

	o.steps = 100;
	o.run_ahead = mode > 0;
	o.check_sync = mode == 2;
	o.gc_share = u->gc_share;
	o.gc_s = u->gc_s;
	o.last_stage = u->last_stage;
	o.lengths = u->lengths;
	j = job_new(&o);
	job_play(j, &v, NULL, NULL);
	for (size_t i = 0; i < v.n; i++)
		n += v.all[i].worst >= SEVERITY_WARNING && v.all[i].f.n_ranks > 0;
	if (n && print) {
		printf("%s: tp=%d dp=%d pp=%d mode=%d seed=%llu\n", u->name, layout[0], layout[1], layout[2], mode,
		       (unsigned long long)seed);
		verdicts_print(&v);
	}
	verdicts_free(&v);
	job_free(j);
	return n > 0;
}

static void test_uneven_jobs_name_nobody(void **state)
{
	const char *sweep = getenv("SWEEP");
	const char *from = getenv("FIRST");
	int seeds = sweep             ? atoi(sweep)
		    : getenv("SHORT") ? 1
				      : SEEDS,
	    first = sweep && from ? atoi(from) : 1, wrong, all = 0;

	(void)state;
	for (size_t c = 0; c < N_CASES; c++)
		for (size_t l = 0; l < N_LAYOUTS; l++)
			for (int mode = 0; mode < 3; mode++) {
				wrong = 0;
				for (int seed = first; seed < first + seeds; seed++)
					wrong += named(&cases[c], layouts[l], mode, seed, !sweep);
				if (sweep && wrong)
					printf("%s, tp=%d dp=%d pp=%d mode %d: %d of %d\n", cases[c].name,
					       layouts[l][0], layouts[l][1], layouts[l][2], mode, wrong, seeds);
				all += wrong;
			}
	printf("%d of %zu jobs of 100 steps named somebody\n", all, N_CASES * N_LAYOUTS * 3 * seeds);
	assert_true(sweep || !all);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_uneven_jobs_name_nobody) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
