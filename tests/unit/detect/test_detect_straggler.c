/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_straggler.c - detector straggler: a slow rank is named, never another; where the host cannot distinguish
 * one rank from those it is coupled with, the set is; what the host cannot see at all is not guessed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

struct outcome {
	int named, in_set, wrong, missed;
	double delay_steps;
};

static void score(const struct job *j, const struct verdicts *v, struct outcome *out)
{
	const struct fault *f = &j->o.faults[0];
	bool hit = false, in_set = false;

	for (size_t i = 0; i < v->n; i++) {
		const struct finding *g = &v->all[i].f;
		bool has = false;

		if (g->kind == FINDING_SLOW_STEP) /* names no rank */
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
			out->delay_steps += (v->all[i].open_ns - (double)j->fault_ns[0]) / SEC /
					    (j->o.step_s * (1 + f->percent / 100));
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
		o.faults[0] = (struct fault){
			FAULT_SLOW, random_next(rng) % o.ranks, 8 + random_next(rng) % 5, percent, 0, 1
		};
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
	printf("tp=%d dp=%d pp=%d %g%% ahead=%d check=%d: named %d, in a set %d, missed %d, wrong %d of %d; after "
	       "%.1f steps\n",
	       tp, dp, pp, percent, ahead, check, out.named, out.in_set, out.missed, out.wrong, n,
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
			struct outcome out = trials(&rng, layouts[i][0], layouts[i][1], layouts[i][2], percents[p],
						    false, false, TRIALS);

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
	out = trials(&rng, 2, 4, 1, 20, true, true, TRIALS); /* its tensor-parallel partner cannot be distinguished */
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
		assert_int_equal(
			trials(&rng, layouts[i][0], layouts[i][1], layouts[i][2], 20, true, false, TRIALS).wrong, 0);
}

/* What hangs in step after step is a hang each, not slowness on top; after the third it is how this job is. */
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
	assert_int_equal(verdict_roots(&v), 3);
	verdicts_free(&v);
	job_free(j);
}

/* Iterations of 60 ms are judged several at a time; what is said is of one. */
static void test_figures_are_of_an_iteration(void **state)
{
	static const double steps_s[] = { 0.06, 0.4 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct job_opts o = job_usual(1, 4, 1, test_seed());
		struct verdicts v;
		struct job *j;
		const struct seen_finding *s;

		o.step_s = steps_s[i];
		o.steps = 12 / o.step_s;
		o.faults[0] = (struct fault){ FAULT_SLOW, 2, 10, 50, 0, 1 };
		j = job_new(&o);
		job_play(j, &v, NULL, NULL);
		s = verdict_of(&v, FINDING_STRAGGLER);
		assert_non_null(s);
		assert_in_range(1e3 * finding_number(&s->f, EVIDENCE_STEP_S), 1400 * o.step_s, 1700 * o.step_s);
		assert_in_range(1e3 * finding_number(&s->f, EVIDENCE_GAP_S), 400 * o.step_s, 600 * o.step_s);
		verdicts_free(&v);
		job_free(j);
	}
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
	printf("slow from %.1f to %.1f s, reported from %.1f to %.1f s\n", (j->fault_ns[0] - (double)JOB_T0) / SEC,
	       (j->fault_ns[1] - (double)JOB_T0) / SEC, (s->open_ns - (double)JOB_T0) / SEC,
	       (s->last_ns - (double)JOB_T0) / SEC);
	assert_int_equal(v.n, 1);
	assert_true(s->last_ns > j->fault_ns[1] && s->last_ns < j->fault_ns[1] + 4 * SEC);
	verdicts_free(&v);
	job_free(j);
}

/* --- a data-parallel job of two ranks by hand: host waits for its gradients, reduces them in long operations --- */

#define HAND_STEPS 200
#define HAND_STEP (44 * MSEC)
#define HAND_OPS 8
#define HAND_COMM 0x7000

static struct event *hand_add(struct event *at, enum event_kind kind, int rank, uint64_t ns)
{
	*at = job_event(kind, rank, ns);
	return at;
}

static struct event *hand_comm(struct event *e, uint64_t addr, int rank)
{
	struct event *one = hand_add(e++, EV_COMM_INIT, rank, JOB_T0 - SEC + MSEC);

	one->comm_init = (typeof(one->comm_init)){ .kind = COMM_INIT_RANK, .id_hash = addr, .rank = rank, .nranks = 2 };
	one = hand_add(e++, EV_COMM_READY, rank, JOB_T0 - SEC + 2 * MSEC);
	one->comm_init = (typeof(one->comm_init)){
		.kind = COMM_INIT_RANK, .id_hash = addr, .rank = rank, .nranks = 2, .addr = addr
	};
	return e;
}

static struct event *hand_rank(struct event *e, int rank)
{
	struct event *one = hand_add(e++, EV_PROC, rank, JOB_T0 - SEC);

	one->proc = (typeof(one->proc)){ .start_ns = 5,
					 .rank = rank,
					 .local_rank = rank,
					 .world_size = 2,
					 .parent_tgid = 1,
					 .job = "job",
					 .name = "train",
					 .container = "" };
	return hand_comm(e, HAND_COMM, rank);
}

static struct event *hand_op_in(struct event *e, uint64_t comm, enum op_kind kind, int rank, uint64_t ns,
				uint64_t count)
{
	struct event *one = hand_add(e++, EV_OP, rank, ns);

	one->op = (typeof(one->op)){ .addr = comm,
				     .op = kind,
				     .count = count,
				     .dtype = 7,
				     .redop = 0,
				     .root = kind == OP_BROADCAST ? 0 : -1,
				     .peer = -1,
				     .stream = 0x55 };
	return e;
}

static struct event *hand_op(struct event *e, int rank, uint64_t ns, uint64_t count)
{
	return hand_op_in(e, HAND_COMM, OP_ALLREDUCE, rank, ns, count);
}

static struct event *hand_wait(struct event *e, int rank, enum sync_kind kind, uint64_t begin_ns, uint64_t end_ns)
{
	hand_add(e, EV_SYNC_BEGIN, rank, begin_ns)->sync.kind = kind;
	e++;
	hand_add(e, EV_SYNC_END, rank, end_ns)->sync = (typeof(e->sync)){ .kind = kind, .begin_ns = begin_ns };
	return e + 1;
}

/* The host waits for the compute stream until its gradients are there, `late` after its peer's; 18 ms of all-reduces
 * end for both at once. */
static struct event *hand_step(struct event *e, int rank, uint64_t begin_ns, uint64_t late_ns)
{
	uint64_t ready = begin_ns + 10 * MSEC + late_ns, over = begin_ns + 36 * MSEC;

	e = hand_wait(e, rank, SYNC_STREAM, begin_ns + MSEC, ready);
	for (int i = 0; i < HAND_OPS; i++)
		e = hand_op(e, rank, ready + MSEC / 20 * (i + 1), 1 << 20);
	e = hand_wait(e, rank, SYNC_CONTEXT, ready + MSEC, over + rank * 1000);
	e = hand_op(e, rank, over + MSEC / 10 + rank * 1000, 1);
	return hand_wait(e, rank, SYNC_CONTEXT, over + MSEC / 5, over + MSEC / 4 + rank * 1000);
}

static int hand_by_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	return x->ts_ns < y->ts_ns ? -1 : x->ts_ns > y->ts_ns;
}

#define HAND_TICKS (HAND_STEPS * HAND_STEP / (250 * MSEC))
#define HAND_EVENTS (64 + HAND_STEPS * 64 + HAND_TICKS)

static void hand_play(struct job *j, struct event *all, struct event *e, struct verdicts *v)
{
	for (uint64_t i = 0; i < HAND_TICKS; i++)
		hand_add(e++, EV_TICK, 0, JOB_T0 + i * 250 * MSEC);
	qsort(all, e - all, sizeof(*all), hand_by_time);
	j->events = all;
	j->n_events = e - all;
	job_play(j, v, NULL, NULL);
}

/* Late into long operations, after the host waited for its GPU, is as late as it looks. From two H200s, where a kernel
 * spun for 20 % of the step: 7.4 ms late into 18.6 ms of all-reduces. */
static void test_long_transfers_hide_no_lateness(void **state)
{
	int slow = test_seed() % 2;
	struct event *all = calloc(HAND_EVENTS, sizeof(*all)), *e = all;
	const struct seen_finding *s;
	struct job j = { 0 };
	struct verdicts v;

	(void)state;
	assert_non_null(all);
	for (int r = 0; r < 2; r++)
		e = hand_rank(e, r);
	for (int step = 0; step < HAND_STEPS; step++)
		for (int r = 0; r < 2; r++)
			e = hand_step(e, r, JOB_T0 + step * HAND_STEP, r == slow && step > 60 ? 7400000 : 0);
	hand_play(&j, all, e, &v);
	s = verdict_of(&v, FINDING_STRAGGLER);
	if (!s)
		verdicts_print(&v);
	assert_non_null(s);
	assert_int_equal(s->f.n_ranks, 1);
	assert_int_equal(s->f.ranks[0], slow);
	assert_true(s->open_ns > JOB_T0 + 60 * HAND_STEP && s->open_ns < JOB_T0 + 110 * HAND_STEP);
	verdicts_free(&v);
	free(all);
}

#define HAND_OTHER 0x8000

/* Behind the step in the other communicator, of which a rank's first operation was lost: by its number the rank enters
 * each a step after its peer is through. The walk went round in a circle there, and charged 10 minutes a step. */
static void miscounted_play(enum op_kind kind, struct verdicts *v)
{
	int lost = test_seed() % 2;
	struct event *all = calloc(HAND_EVENTS, sizeof(*all)), *e = all;
	struct job j = { 0 };

	assert_non_null(all);
	for (int r = 0; r < 2; r++)
		e = hand_comm(hand_rank(e, r), HAND_OTHER, r);
	for (int step = 0; step < HAND_STEPS; step++)
		for (int r = 0; r < 2; r++) {
			uint64_t begin = JOB_T0 + step * HAND_STEP, at = begin + 40 * MSEC + r * 100000;

			e = hand_step(e, r, begin, r == step % 2 ? MSEC : 0);
			if (r != lost || step)
				e = hand_op_in(e, HAND_OTHER, kind, r, at, 1 << 16);
			e = hand_wait(e, r, SYNC_CONTEXT, at + MSEC / 10, begin + 42 * MSEC + r * 1000);
		}
	hand_play(&j, all, e, v);
	free(all);
}

static void test_miscounted_operations_are_no_lateness(void **state)
{
	struct verdicts v;

	(void)state;
	miscounted_play(OP_ALLREDUCE, &v);
	if (v.n)
		verdicts_print(&v);
	assert_int_equal(v.n, 0);
	verdicts_free(&v);
}

/* The root of a broadcast may be through before others come: no end shows the miscount. The walk ends there, and
 * charges no more than there was time for. */
static void test_walk_goes_back_in_time(void **state)
{
	struct verdicts v;

	(void)state;
	miscounted_play(OP_BROADCAST, &v);
	for (size_t i = 0; i < v.n; i++)
		if (v.all[i].f.kind == FINDING_STRAGGLER)
			assert_true(finding_number(&v.all[i].f, EVIDENCE_GAP_S) * SEC < HAND_STEP);
	verdicts_free(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slow_host_is_named),
		cmocka_unit_test(test_slow_gpu_behind_a_wait),
		cmocka_unit_test(test_the_invisible_is_not_guessed),
		cmocka_unit_test(test_hangs_are_no_slowness),
		cmocka_unit_test(test_figures_are_of_an_iteration),
		cmocka_unit_test(test_recovery_closes_it),
		cmocka_unit_test(test_long_transfers_hide_no_lateness),
		cmocka_unit_test(test_miscounted_operations_are_no_lateness),
		cmocka_unit_test(test_walk_goes_back_in_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
