/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_slow_step.c - detector slow_step: a pace that falls and stays so is reported, once, with before and
 * after; a long iteration, noise and a healthy job are not; a named straggler explains it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/evidence.h"
#include "tests/unit/job/job_script.h"

/* A data-parallel job of 90 steps whose hosts run ahead of their GPUs: nothing of a slow GPU shows in the enqueues. */
static struct job_opts ahead(uint64_t seed)
{
	struct job_opts o = job_usual(1, 4, 1, seed);

	o.steps = 90;
	o.run_ahead = true;
	return o;
}

static int slow_steps(const struct verdicts *v, const struct seen_finding **ret)
{
	int n = 0;

	for (size_t i = 0; i < v->n; i++)
		if (v->all[i].f.kind == FINDING_SLOW_STEP) {
			*ret = &v->all[i];
			n++;
		}
	return n;
}

static double note_of(const struct finding *f, const char *name)
{
	return number_named(f, name, -1);
}

static void play(const struct job_opts *o, struct job **j, struct verdicts *v)
{
	*j = job_new(o);
	job_play(*j, v, NULL, NULL);
}

static void finish(struct job *j, struct verdicts *v)
{
	verdicts_free(v);
	job_free(j);
}

static void test_slow_gpu_is_reported(void **state)
{
	uint64_t rng = test_seed();
	const struct seen_finding *s = NULL;

	(void)state;
	for (int percent = 20; percent <= 50; percent += 30) {
		struct job_opts o = ahead(random_next(&rng));
		struct verdicts v;
		struct job *j;
		double late_steps;

		o.faults[0] = (struct fault){ FAULT_SLOW, random_next(&rng) % 4, 50, percent, 0, 1 };
		play(&o, &j, &v);
		verdicts_print(&v);
		assert_int_equal(slow_steps(&v, &s), 1);
		assert_int_equal(s->f.n_ranks, 0);
		assert_int_equal(verdict_roots(&v), 0); /* it names no rank and is no proof */
		late_steps = ((double)s->open_ns - (double)j->fault_ns[0]) / SEC / o.step_s / (1 + percent / 100.0);
		assert_true(late_steps > 4 &&
			    late_steps < 14); /* ten windows, of which some before it may be long by chance */
		assert_true(note_of(&s->f, "slower_percent") > 0.6 * percent &&
			    note_of(&s->f, "slower_percent") < 1.2 * percent);
		assert_true(note_of(&s->f, "step_before_s") > o.step_s);
		assert_true(note_of(&s->f, "step_s") > note_of(&s->f, "step_before_s"));
		/* ten windows again: six before it at most */
		assert_true(s->f.since_ns + 6.5 * o.step_s * SEC > j->fault_ns[0]);
		finish(j, &v);
	}
}

static void test_healthy_is_silent(void **state)
{
	uint64_t rng = test_seed();
	const struct seen_finding *s;

	(void)state;
	for (int i = 0; i < 12; i++) {
		struct job_opts o = ahead(random_next(&rng));
		struct verdicts v;
		struct job *j;

		o.jitter = 0.02 * (i % 4);
		o.steps = 150;
		play(&o, &j, &v);
		assert_int_equal(slow_steps(&v, &s), 0);
		finish(j, &v);
	}
}

/* One long iteration, and a rank that was stopped for a while, are no pace. */
static void test_pauses_are_no_pace(void **state)
{
	static const enum fault_kind kinds[] = { FAULT_EVAL, FAULT_STOP, FAULT_BUSY };
	uint64_t rng = test_seed();
	const struct seen_finding *s;

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct job_opts o = ahead(random_next(&rng));
		struct verdicts v;
		struct job *j;

		o.faults[0] = (struct fault){ kinds[i], random_next(&rng) % 4, 50, 0, 12, 0 };
		play(&o, &j, &v);
		assert_int_equal(slow_steps(&v, &s), 0);
		finish(j, &v);
	}
}

static void test_straggler_explains_it(void **state)
{
	uint64_t rng = test_seed();
	struct job_opts o = job_usual(1, 4, 1, random_next(&rng));
	const struct seen_finding *s = NULL, *named;
	struct verdicts v;
	struct job *j;

	(void)state;
	o.steps = 90;
	o.faults[0] = (struct fault){ FAULT_SLOW, 2, 50, 40, 0, 1 };
	play(&o, &j, &v);
	named = verdict_of(&v, FINDING_STRAGGLER);
	assert_non_null(named);
	assert_int_equal(named->f.ranks[0], 2);
	assert_int_equal(slow_steps(&v, &s), 1);
	assert_true(s->f.caused_by_key == named->f.key);
	assert_true(s->open_ns > named->open_ns);
	finish(j, &v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slow_gpu_is_reported),
		cmocka_unit_test(test_healthy_is_silent),
		cmocka_unit_test(test_pauses_are_no_pace),
		cmocka_unit_test(test_straggler_explains_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
