/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_gpu_time.c - detector gpu_time: hosts that run ahead of their GPUs, and a framework that measures its own
 * passes. A rank whose GPU is slower is named; work that differs from rank to rank by chance names no rank; what ran
 * beside an operation is not taken for the rank's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

#define READ_EVERY_STEPS 5
#define BASE_S 0.3
#define SPANS 2 /* measured in each reading */

struct measured {
	int ranks, steps, slow_rank, from_step;
	double slow_share, spread, unsteady; /* unsteady: every other reading of the slow rank is so much slower */
	bool around_op;
	uint64_t seed;
};

static double uniform(uint64_t *rng)
{
	return (random_next(rng) % 1000000) * 1e-6;
}

static struct event *append(struct event *e, size_t *n, struct event one)
{
	e = realloc(e, (*n + 1) * sizeof(*e));
	assert_non_null(e);
	e[(*n)++] = one;
	return e;
}

/* CUDA events around a pass and the question for its time a while later. */
static struct event *span_put(struct event *e, size_t *n, int rank, int k, uint64_t begin_ns, uint64_t end_ns,
			      uint64_t gpu_ns)
{
	struct event record = job_event(EV_CUDA_EVENT, rank, begin_ns),
		     ask = job_event(EV_ELAPSED, rank, end_ns + 50 * MSEC + k * MSEC);

	record.cuda_event.stream = 0x77;
	record.cuda_event.handle = 0x9000 + 2 * k;
	e = append(e, n, record);
	record.cuda_event.handle++;
	record.ts_ns = end_ns;
	e = append(e, n, record);
	ask.elapsed.start = 0x9000 + 2 * k;
	ask.elapsed.end = 0x9001 + 2 * k;
	ask.elapsed.gpu_ns = gpu_ns;
	return append(e, n, ask);
}

/* The first operation of that rank after `ns`; 0 none. */
static uint64_t op_after(const struct job *j, int rank, uint64_t ns)
{
	for (size_t i = 0; i < j->n_events; i++)
		if (j->events[i].kind == EV_OP && j->events[i].tgid == job_pid(rank) && j->events[i].ts_ns > ns)
			return j->events[i].ts_ns;
	return 0;
}

static int by_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	return x->ts_ns < y->ts_ns ? -1 : x->ts_ns > y->ts_ns;
}

static void measure(struct job *j, const struct measured *w)
{
	uint64_t rng = w->seed, last = j->events[j->n_events - 1].ts_ns;
	struct event *more = NULL;
	size_t n = 0;

	for (int step = READ_EVERY_STEPS; step < w->steps; step += READ_EVERY_STEPS)
		for (int rank = 0; rank < w->ranks; rank++)
			for (int k = 0; k < SPANS; k++) {
				uint64_t at = JOB_T0 + (uint64_t)(step * j->o.step_s * SEC),
					 op = op_after(j, rank, at + SEC / 20);
				double s = BASE_S / SPANS * (1 + w->spread * (2 * uniform(&rng) - 1));

				if (rank == w->slow_rank && step >= w->from_step)
					s += w->slow_share * j->o.step_s / SPANS *
					     (step / READ_EVERY_STEPS % 2 ? 1 + w->unsteady : 1);
				if (!op || op > last)
					continue;
				at = w->around_op ? op - 1000 : op + 1000;
				more = span_put(more, &n, rank, k, at, w->around_op ? op + 1000 : at + 1,
						(uint64_t)(s * SEC));
			}
	j->events = realloc(j->events, (j->n_events + n) * sizeof(*j->events));
	assert_non_null(j->events);
	memcpy(j->events + j->n_events, more, n * sizeof(*more));
	j->n_events += n;
	qsort(j->events, j->n_events, sizeof(*j->events),
	      by_time); /* glibc's is a merge sort: equal times stay in order */
	free(more);
}

static void play(struct measured *w, uint64_t *rng, struct job **ret, struct verdicts *v)
{
	struct job_opts o = job_usual(1, w->ranks, 1, random_next(rng));

	w->seed = random_next(rng);
	o.steps = w->steps;
	o.run_ahead = true;
	*ret = job_new(&o);
	measure(*ret, w);
	job_play(*ret, v, NULL, NULL);
}

static void test_slow_gpu_is_named(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	for (int ranks = 2; ranks <= 8; ranks *= 2) {
		struct measured w = { .ranks = ranks,
				      .steps = 90,
				      .slow_rank = random_next(&rng) % ranks,
				      .from_step = 20,
				      .slow_share = 0.12,
				      .spread = 0.02 };
		const struct seen_finding *s;
		struct verdicts v;
		struct job *j;
		double after_readings;

		play(&w, &rng, &j, &v);
		s = verdict_of(&v, FINDING_STRAGGLER);
		if (!s)
			verdicts_print(&v);
		assert_non_null(s);
		assert_int_equal(verdict_roots(&v), 1);
		assert_int_equal(s->f.n_ranks, 1);
		assert_int_equal(s->f.ranks[0], w.slow_rank);
		assert_string_equal(cause_name(s->f.cause), "gpu");
		after_readings = ((double)s->open_ns / SEC - 100) / j->o.step_s / READ_EVERY_STEPS - 4;
		printf("%d ranks: rank %d named after %.1f readings\n", ranks, w.slow_rank, after_readings);
		assert_true(after_readings < (ranks == 2 ? 12 : 6));
		verdicts_free(&v);
		job_free(j);
	}
}

/* Its own readings differ much: what chance does is read from its peers. */
static void test_an_unsteady_gpu_is_named(void **state)
{
	uint64_t rng = test_seed();
	struct measured w = { .ranks = 4,
			      .steps = 90,
			      .slow_rank = 1,
			      .from_step = 20,
			      .slow_share = 0.06,
			      .unsteady = 9,
			      .spread = 0.02 };
	const struct seen_finding *s;
	struct verdicts v;
	struct job *j;

	(void)state;
	play(&w, &rng, &j, &v);
	s = verdict_of(&v, FINDING_STRAGGLER);
	assert_non_null(s);
	assert_int_equal(s->f.ranks[0], 1);
	verdicts_free(&v);
	job_free(j);
}

/* Random sequence lengths: every pass differs by up to a third, on all ranks alike. Fixed seeds: what chance may do
 * once in thousands of jobs is no failure (docs/decisions/tests.md, 15). */
static void test_uneven_data_names_nobody(void **state)
{
	uint64_t rng = 20261121;
	int named = 0;

	(void)state;
	for (int i = 0; i < 12; i++) {
		struct measured w = { .ranks = 2 << i % 3, .steps = 250, .slow_rank = -1, .spread = 0.33 };
		struct verdicts v;
		struct job *j;

		play(&w, &rng, &j, &v);
		named += verdict_of(&v, FINDING_STRAGGLER) != NULL;
		verdicts_free(&v);
		job_free(j);
	}
	assert_int_equal(named, 0);
}

/* An operation lies between the events: a rank that waits for a late peer in it looks slow. */
static void test_span_with_an_operation_is_not_taken(void **state)
{
	uint64_t rng = test_seed();
	struct measured w = {
		.ranks = 4, .steps = 60, .slow_rank = 1, .from_step = 10, .slow_share = 0.3, .around_op = true
	};
	struct verdicts v;
	struct job *j;

	(void)state;
	play(&w, &rng, &j, &v);
	assert_null(verdict_of(&v, FINDING_STRAGGLER));
	verdicts_free(&v);
	job_free(j);
}

static void give(const struct verdicts *v, struct event e)
{
	assert_int_equal(model_apply(v->m, &e), 0);
}

/* The slow rank ends; another process gets its number, and is measured once. */
static void test_a_number_used_again_is_another_rank(void **state)
{
	uint64_t rng = test_seed(), now;
	struct measured w = { .ranks = 4, .steps = 60, .slow_rank = 2, .from_step = 10, .slow_share = 0.2 };
	struct event e = job_event(EV_EXIT, 2, 0);
	struct verdicts v;
	struct job *j;

	(void)state;
	play(&w, &rng, &j, &v);
	assert_non_null(finding_list_of(&v.list, FINDING_STRAGGLER, job_pid(2)));
	now = e.ts_ns = v.m->now_ns + SEC;
	e.exit.last = true;
	give(&v, e);
	e = job_event(EV_PROC, 2, now + 1);
	e.proc = (typeof(e.proc)){ .start_ns = now,
				   .rank = 2,
				   .local_rank = 2,
				   .world_size = 4,
				   .job = "job",
				   .name = "train",
				   .container = "" };
	give(&v, e);
	e = job_event(EV_CUDA_EVENT, 2, now + 2);
	e.cuda_event.handle = 1;
	give(&v, e);
	e.cuda_event.handle = 2;
	give(&v, e);
	e = job_event(EV_ELAPSED, 2, now + SEC);
	e.elapsed = (typeof(e.elapsed)){ .start = 1, .end = 2, .gpu_ns = SEC };
	give(&v, e);
	assert_int_equal(detectors_tick(v.d, v.m, &v.list), 0);
	assert_null(finding_list_of(&v.list, FINDING_STRAGGLER, job_pid(2)));
	verdicts_free(&v);
	job_free(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slow_gpu_is_named),
		cmocka_unit_test(test_an_unsteady_gpu_is_named),
		cmocka_unit_test(test_uneven_data_names_nobody),
		cmocka_unit_test(test_span_with_an_operation_is_not_taken),
		cmocka_unit_test(test_a_number_used_again_is_another_rank),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
