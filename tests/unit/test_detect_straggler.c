/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_straggler.c - detector straggler: a slow rank is named, never another; where the host cannot tell one rank from those it is
 * coupled with, the set is; what the host cannot see at all is not guessed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "job_script.h"

struct outcome { int named, in_set, wrong, missed; double delay_steps; };

static void score(const struct job *j, const struct verdicts *v, struct outcome *out)
{
	const struct fault *f = &j->o.faults[0];
	bool hit = false, in_set = false;

	for (size_t i = 0; i < v->n; i++) {
		const struct finding *g = &v->all[i].f;
		bool has = false;

		if (g->kind == FINDING_SLOW_STEP) /* names nobody */
			continue;
		if (g->kind != FINDING_STRAGGLER) {
			out->wrong++;
			continue;
		}
		for (int k = 0; k < g->n_ranks; k++)
			has |= g->ranks[k] == f->rank;
		out->wrong += !has;
		hit |= has && g->n_ranks == 1;
		in_set |= has && g->n_ranks > 1;
		if (has && g->n_ranks == 1)
			out->delay_steps += (v->all[i].open_ns - (double)j->fault_ns[0]) / SEC / (j->o.step_s * (1 + f->percent / 100));
	}
	out->named += hit;
	out->in_set += !hit && in_set;
	out->missed += !hit && !in_set;
}

static struct outcome trials(uint64_t *rng, int tp, int dp, int pp, double percent, bool ahead, bool check, int n)
{
	struct outcome out = { 0 };

	for (int i = 0; i < n; i++) {
		struct job_opts o = job_usual(tp, dp, pp, random_next(rng));
		struct verdicts v;
		struct job *j;
		int wrong = out.wrong;

		o.steps = 24;
		o.run_ahead = ahead;
		o.check_sync = check;
		o.faults[0] = (struct fault){ FAULT_SLOW, random_next(rng) % o.ranks, 8 + random_next(rng) % 5, percent, 0, 1 };
		j = job_new(&o);
		job_play(j, &v, NULL, NULL);
		score(j, &v, &out);
		if (out.wrong != wrong) {
			printf("seed %llu rank %d\n", (unsigned long long)o.seed, o.faults[0].rank);
			verdicts_print(&v);
		}
		verdicts_free(&v);
		job_free(j);
	}
	printf("tp=%d dp=%d pp=%d %g%% ahead=%d check=%d: named %d, in a set %d, missed %d, wrong %d of %d; after %.1f steps\n", tp,
	       dp, pp, percent, ahead, check, out.named, out.in_set, out.missed, out.wrong, n,
	       out.named ? out.delay_steps / out.named : 0);
	return out;
}

#define TRIALS 12

static void test_slow_host_is_named(void **state)
{
	static const int layouts[][3] = { { 1, 2, 1 }, { 1, 4, 1 }, { 1, 8, 1 }, { 2, 4, 1 }, { 4, 2, 1 } };
	static const double percents[] = { 10, 20, 50 };
	uint64_t rng = test_seed();

	(void)state;
	for (size_t i = 0; i < 5; i++)
		for (int p = 0; p < 3; p++) {
			struct outcome out = trials(&rng, layouts[i][0], layouts[i][1], layouts[i][2], percents[p], false, false, TRIALS);

			assert_int_equal(out.named, TRIALS);
			assert_int_equal(out.wrong, 0);
			assert_true(out.delay_steps / TRIALS <= 6); /* 4 iterations of blame, and the ticks between */
		}
}

/* Compute on the GPU, seen only through a wait before the gradients are reduced. */
static void test_slow_gpu_behind_a_wait(void **state)
{
	uint64_t rng = test_seed();
	struct outcome out;

	(void)state;
	out = trials(&rng, 1, 8, 1, 20, true, true, TRIALS);
	assert_int_equal(out.named, TRIALS);
	assert_int_equal(out.wrong, 0);
	out = trials(&rng, 2, 4, 1, 20, true, true, TRIALS); /* its tensor-parallel partner cannot be told apart */
	assert_int_equal(out.in_set, TRIALS);
	assert_int_equal(out.wrong, 0);
	out = trials(&rng, 1, 4, 2, 50, true, true, TRIALS); /* with pipeline stages its whole replica */
	assert_int_equal(out.wrong, 0);
	out = trials(&rng, 2, 2, 2, 60, true, true, TRIALS);
	assert_int_equal(out.wrong, 0);
}

/* Host ahead of the GPU without a wait: nothing to see, nobody to name. */
static void test_the_invisible_is_not_guessed(void **state)
{
	static const int layouts[][3] = { { 1, 8, 1 }, { 2, 4, 1 }, { 2, 2, 2 }, { 1, 2, 4 } };
	uint64_t rng = test_seed();

	(void)state;
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(trials(&rng, layouts[i][0], layouts[i][1], layouts[i][2], 20, true, false, TRIALS).wrong, 0);
}

/* What hung in step after step is four hangs, not slowness on top. */
static void test_hangs_are_no_slowness(void **state)
{
	struct job_opts o = job_usual(1, 4, 1, 13);
	struct verdicts v;
	struct job *j;

	(void)state;
	o.steps = 40;
	for (int i = 0; i < 4; i++)
		o.faults[i] = (struct fault){ FAULT_HANG, 1, 16 + i, 0, 5, 2 };
	j = job_new(&o);
	job_play(j, &v, NULL, NULL);
	assert_null(verdict_of(&v, FINDING_STRAGGLER));
	assert_int_equal(verdict_roots(&v), 4);
	verdicts_free(&v);
	job_free(j);
}

/* A finding closes some iterations after the rank has recovered. */
static void test_recovery_closes_it(void **state)
{
	struct job_opts o = job_usual(1, 4, 1, 12);
	const struct seen_finding *s;
	struct verdicts v;
	struct job *j;

	(void)state;
	o.steps = 40;
	o.faults[0] = (struct fault){ FAULT_SLOW, 1, 8, 40, 0, 1 };
	o.faults[1] = (struct fault){ FAULT_SLOW, 1, 18, 0, 0, 1 };
	j = job_new(&o);
	job_play(j, &v, NULL, NULL);
	s = verdict_of(&v, FINDING_STRAGGLER);
	printf("slow from %.1f to %.1f s, told from %.1f to %.1f s\n", (j->fault_ns[0] - (double)JOB_T0) / SEC,
	       (j->fault_ns[1] - (double)JOB_T0) / SEC, (s->open_ns - (double)JOB_T0) / SEC, (s->last_ns - (double)JOB_T0) / SEC);
	assert_int_equal(v.n, 1);
	assert_true(s->last_ns > j->fault_ns[1] && s->last_ns < j->fault_ns[1] + 4 * SEC);
	verdicts_free(&v);
	job_free(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slow_host_is_named),
		cmocka_unit_test(test_slow_gpu_behind_a_wait),
		cmocka_unit_test(test_the_invisible_is_not_guessed),
		cmocka_unit_test(test_hangs_are_no_slowness),
		cmocka_unit_test(test_recovery_closes_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
