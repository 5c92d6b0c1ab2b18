/* SPDX-License-Identifier: Apache-2.0
 *
 * test_collect.c - a scripted job as measures, and two of them compared: healthy ones of other seeds differ in nothing,
 * one with a slow rank in its steps and in who is late; phases, where steps have them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compare/collect.h"
#include "compare/compare.h"
#include "tests/unit/job/job_script.h"

#define SEEDS 8 /* SEEDS=60: docs/measurements/compare.md */
#define KINDS 5

static void events_play(const struct job *j, struct model *m, struct sink *s)
{
	const struct op *op;

	for (size_t i = 0; i < j->n_events; i++) {
		assert_int_not_equal(model_apply(m, &j->events[i]), -ENOMEM);
		while ((op = model_next_ended(m)))
			assert_int_equal(s->class->op(s, op, m), 0);
	}
}

static struct job_opts opts_of(int tp, int dp, uint64_t seed)
{
	struct job_opts o = job_usual(tp, dp, 1, seed);

	o.steps = 50;
	o.block_each = true;
	return o;
}

static void measured(const struct job_opts *o, struct collected *ret)
{
	struct collector *c = collector_new();
	struct model *m = model_new();
	struct job *j = job_new(o);

	assert_true(c && m && j);
	events_play(j, m, collector_sink(c));
	assert_int_equal(collector_take(c, ret), 0);
	collector_sink(c)->class->close(collector_sink(c), m);
	model_free(m);
	job_free(j);
}

static void compared(const struct job_opts *a, const struct job_opts *b, struct collected both[2], struct comparison *c)
{
	measured(a, &both[0]);
	measured(b, &both[1]);
	assert_int_equal(comparison_make(&both[0].measures, &both[1].measures, COMPARE_SHARE_DEFAULT, c), 0);
}

static void freed(struct collected both[2], struct comparison *c)
{
	comparison_free(c);
	measures_free(&both[0].measures);
	measures_free(&both[1].measures);
}

static int count(const struct comparison *c, enum verdict v, enum measure_kind kind)
{
	int n = 0;

	for (size_t i = 0; i < c->n; i++)
		n += c->v[i].verdict == v && (c->v[i].a ? c->v[i].a : c->v[i].b)->kind == kind;
	return n;
}

/* Healthy jobs as they are: hosts that run ahead, collections, a longer last stage, rank 0 that writes logs. */
static struct job_opts healthy_opts(int kind, uint64_t seed)
{
	struct job_opts o = opts_of(2, 2, seed);

	if (kind == 1) {
		o.run_ahead = true;
		o.block_each = false;
	} else if (kind == 2) {
		o.gc_share = 0.05;
		o.gc_s = 0.3;
	} else if (kind == 3) {
		o.tp = 1;
		o.pp = 2;
		o.last_stage = o.lengths = 0.3;
	} else if (kind == 4) {
		o.faults[0] = (struct fault){ .kind = FAULT_LOG, .percent = 20, .seconds = JOB_FOREVER, .step = 1 };
	}
	return o;
}

static int healthy_pair(int kind, uint64_t seed)
{
	struct job_opts a = healthy_opts(kind, seed), b = healthy_opts(kind, seed + 1000);
	struct collected both[2];
	struct comparison c;
	int n;

	compared(&a, &b, both, &c);
	n = (int)c.n_compared;
	assert_int_equal(both[0].n_ranks, 4);
	assert_false(both[0].rivals || both[1].rivals);
	assert_int_equal(count(&c, COMPARE_ONLY_A, MEASURE_STEP), 0);
	assert_true(n >= 8); /* steps and lateness of four ranks */
	for (size_t i = 0; i < c.n; i++)
		if (c.v[i].verdict == COMPARE_SLOWER || c.v[i].verdict == COMPARE_FASTER)
			fail_msg("kind %d, seed %d: %s of rank %d %s: %g -> %g, noise %g", kind, (int)seed,
				 c.v[i].a->what, c.v[i].a->rank, c.v[i].a->where, c.v[i].a_s, c.v[i].b_s,
				 c.v[i].noise_s);
	freed(both, &c);
	return n;
}

static void test_healthy(void **state)
{
	const char *text = getenv("SEEDS");
	uint64_t seeds = text ? strtoull(text, NULL, 10) : SEEDS;
	int n = 0;

	(void)state;
	for (int kind = 0; kind < KINDS; kind++)
		for (uint64_t seed = 1; seed <= seeds; seed++)
			n += healthy_pair(kind, seed);
	print_message("%d pairs of healthy jobs, %d medians, none slower or faster\n", KINDS * (int)seeds, n);
}

static void test_slow_rank(void **state)
{
	struct job_opts a = opts_of(1, 4, 1), b = opts_of(1, 4, 2);
	const struct difference *late = NULL;
	struct collected both[2];
	struct comparison c;

	(void)state;
	b.faults[0] = (struct fault){ .kind = FAULT_SLOW, .rank = 2, .step = 1, .percent = 50, .seconds = JOB_FOREVER };
	compared(&a, &b, both, &c);
	assert_int_equal(count(&c, COMPARE_SLOWER, MEASURE_STEP), 4);
	for (size_t i = 0; i < c.n; i++)
		if (c.v[i].verdict == COMPARE_SLOWER && c.v[i].a->kind == MEASURE_LATE) {
			assert_null(late);
			late = &c.v[i];
		}
	assert_non_null(late);
	assert_int_equal(late->a->rank, 2);
	assert_true(c.a_step_s > 0.3 && c.b_step_s > 1.3 * c.a_step_s);
	freed(both, &c);
}

/* Communicators are those of the same ranks, though their hashes differ; with more ranks they are others. */
static void test_communicators(void **state)
{
	struct job_opts a = opts_of(2, 2, 1), b = opts_of(2, 4, 2);
	struct collected both[2];
	struct comparison c;
	int same = 0;

	(void)state;
	compared(&a, &b, both, &c);
	assert_true(both[0].n_ops > 1000 && both[0].n_vague < both[0].n_ops / 10);
	assert_int_equal(count(&c, COMPARE_ONLY_B, MEASURE_STEP), 4);
	for (size_t i = 0; i < c.n; i++)
		same += c.v[i].a && c.v[i].b && c.v[i].a->kind == MEASURE_OPERATION &&
			!strcmp(c.v[i].a->where, "ranks 0-1");
	assert_true(same > 0);
	assert_true(count(&c, COMPARE_ONLY_A, MEASURE_OPERATION) > 0);
	freed(both, &c);
}

static void step_give(struct collector *c, const struct model *m, int rank, uint64_t backward_ms, uint32_t n_backward)
{
	struct step_done s = { .proc = model_rank(m, NULL, rank), .begin_ns = SEC, .n_backward = n_backward };

	assert_non_null(s.proc);
	s.end_ns = s.begin_ns + (60 + backward_ms) * MSEC;
	s.phase_ns[PHASE_FORWARD] = 20 * MSEC;
	s.phase_ns[PHASE_BACKWARD] = backward_ms * MSEC;
	s.wait_ns[PHASE_BACKWARD] = s.gpu_wait_ns = 5 * MSEC;
	assert_int_equal(collector_sink(c)->class->step(collector_sink(c), &s, m), 0);
}

static const struct measure *measure_find(const struct measures *m, const char *what, int rank)
{
	for (size_t i = 0; i < m->n; i++)
		if (!strcmp(m->v[i].what, what) && m->v[i].rank == rank)
			return &m->v[i];
	return NULL;
}

/* Steps with phases: the host's time without its waits, no evaluation's batches, and not what operations gave. */
static void test_phases(void **state)
{
	struct job_opts o = opts_of(1, 2, 1);
	struct collector *c = collector_new();
	struct model *m = model_new();
	struct job *j = job_new(&o);
	const struct measure *backward;
	struct collected got;

	(void)state;
	events_play(j, m, collector_sink(c));
	for (int i = 0; i < 9; i++)
		step_give(c, m, 1, 35, 1);
	step_give(c, m, 1, 500, 0);
	assert_int_equal(collector_take(c, &got), 0);
	assert_true(got.phases);
	backward = measure_find(&got.measures, "backward", 1);
	assert_non_null(backward);
	assert_int_equal(backward->s.n, 9);
	assert_float_equal(backward->s.v[0], 0.030, 1e-9);
	assert_float_equal(measure_find(&got.measures, "other", 1)->s.v[0], 0.040, 1e-9);
	assert_float_equal(measure_find(&got.measures, "gpu_wait", 1)->s.v[0], 0.005, 1e-9);
	assert_int_equal(measure_find(&got.measures, "step", 1)->s.n, 9);
	assert_true(measure_find(&got.measures, "step", 0)->s.n > 30);
	assert_null(measure_find(&got.measures, "backward", 0));
	measures_free(&got.measures);
	collector_sink(c)->class->close(collector_sink(c), m);
	model_free(m);
	job_free(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_healthy),
		cmocka_unit_test(test_slow_rank),
		cmocka_unit_test(test_communicators),
		cmocka_unit_test(test_phases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
