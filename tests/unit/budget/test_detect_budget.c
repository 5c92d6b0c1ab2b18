/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_budget.c - what detectors say of a job in which the probe budget took probes from some ranks in the
 * middle: of a healthy one nothing, of a fault what they said before.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

#define SAMPLE_NS (5 * SEC / 2) /* a collector that is late */
#define ALL ((1u << PROBE_GROUPS) - 1)

enum { RANKS = 4, STEPS = 80, CUT_STEP = 40, FAULT_STEP = 60 };

/* --- the job, rewritten --- */

static uint64_t step_ns(const struct job *j, int step)
{
	return j->events[j->n_events * step / j->o.steps].ts_ns;
}

static bool from_a_probe(const struct event *e)
{
	return (e->kind >= EV_COMM_INIT && e->kind <= EV_CUDA_EVENT_QUERY) ||
	       (e->kind >= EV_CALL && e->kind <= EV_CAPTURE);
}

static int rank_of(const struct event *e)
{
	for (int r = 0; r < RANKS; r++)
		if (e->tgid == job_pid(r))
			return r;
	return -1;
}

static struct event budget_event(int rank, uint64_t ts_ns, enum budget_what what, uint32_t shed)
{
	struct event e = job_event(EV_BUDGET, rank, ts_ns);

	e.budget.what = what;
	e.budget.shed = shed;
	e.budget.group = what == BUDGET_WATCH ? PROBES_NEEDED : PROBES_EVENTS;
	return e;
}

/* NCCL's own counters, as of then. */
static struct event sample_of(const struct job *j, const struct member *mb, int rank, uint64_t ts_ns)
{
	struct event e = job_event(EV_COMM_SAMPLE, rank, ts_ns);

	e.comm_sample.comm = mb->addr;
	e.comm_sample.hash = mb->comm->hash;
	e.comm_sample.rank = mb->rank;
	e.comm_sample.nranks = mb->comm->nranks;
	e.comm_sample.n_counters = OP_KINDS_COUNTED;
	for (size_t i = 0; i < j->n_events && j->events[i].ts_ns <= ts_ns; i++) {
		const struct event *o = &j->events[i];

		if (o->kind != EV_OP || rank_of(o) != rank || o->op.addr != mb->addr || !op_kind_counted(o->op.op))
			continue;
		e.comm_sample.counters[o->op.op]++;
	}
	return e;
}

struct rewritten {
	struct job job;
	const struct job *from;
	const struct model *whole; /* of the job with all probes */
	uint32_t watched;          /* ranks, one bit each */
	uint64_t cut_ns, sample_ns;
};

static void put(struct rewritten *w, struct event e)
{
	struct job *j = &w->job;

	if (j->n_events == j->cap_events) {
		j->cap_events = j->cap_events ? 2 * j->cap_events : 4096;
		j->events = realloc(j->events, j->cap_events * sizeof(*j->events));
		assert_non_null(j->events);
	}
	j->events[j->n_events++] = e;
}

static void samples_put(struct rewritten *w, uint64_t ts_ns)
{
	w->sample_ns = ts_ns;
	for (int r = 0; r < RANKS; r++) {
		const struct proc *p = model_proc(w->whole, job_pid(r));

		for (const struct member *mb = w->watched >> r & 1 ? p->members : NULL; mb; mb = mb->next_in_proc)
			put(w, sample_of(w->from, mb, r, ts_ns));
	}
}

/* From the cut on the watched ranks' calls are not seen, but their counters are. */
static void watch(struct rewritten *w, const struct event *e)
{
	int r = rank_of(e);

	if (e->ts_ns >= w->cut_ns && !w->sample_ns)
		for (int i = 0; i < RANKS; i++)
			if (w->watched >> i & 1)
				put(w, budget_event(i, e->ts_ns, BUDGET_WATCH, ALL));
	if (e->ts_ns >= w->cut_ns && e->ts_ns - w->sample_ns >= SAMPLE_NS)
		samples_put(w, e->ts_ns);
	if (r < 0 || !(w->watched >> r & 1) || e->ts_ns < w->cut_ns || !from_a_probe(e))
		put(w, *e);
}

/* From the cut on no CUDA event is seen of these ranks. */
static void without_events(struct rewritten *w, const struct event *e)
{
	int r = rank_of(e);

	if (e->ts_ns >= w->cut_ns && !w->sample_ns)
		for (int i = 0; i < RANKS; i++)
			if (w->watched >> i & 1)
				put(w, budget_event(i, e->ts_ns, BUDGET_SHED, 1u << PROBES_EVENTS));
	if (e->ts_ns >= w->cut_ns)
		w->sample_ns = e->ts_ns;
	if (r < 0 || !(w->watched >> r & 1) || e->ts_ns < w->cut_ns ||
	    (e->kind != EV_CUDA_EVENT && e->kind != EV_CUDA_EVENT_WAIT))
		put(w, *e);
}

static void play(const struct job_opts *o, uint32_t ranks, void (*rewrite)(struct rewritten *, const struct event *),
		 struct verdicts *ret)
{
	struct job *j = job_new(o);
	struct verdicts whole;
	struct rewritten w = { .from = j, .watched = ranks };

	job_play(j, &whole, NULL, NULL);
	w.whole = whole.m;
	w.cut_ns = step_ns(j, CUT_STEP);
	w.job = (struct job){ .o = j->o };
	for (size_t i = 0; i < j->n_events; i++)
		rewrite(&w, &j->events[i]);
	job_play(&w.job, ret, NULL, NULL);
	free(w.job.events);
	verdicts_free(&whole);
	job_free(j);
}

/* --- tests --- */

static const int layouts[][3] = { { 1, 4, 1 }, { 2, 2, 1 }, { 1, 2, 2 }, { 1, 1, 4 }, { 4, 1, 1 } };
#define N_LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

static struct job_opts opts(size_t layout, uint64_t seed)
{
	struct job_opts o = job_usual(layouts[layout][0], layouts[layout][1], layouts[layout][2], seed);

	o.steps = STEPS;
	o.step_s = 0.3;
	o.tail_s = 8;
	return o;
}

static void silent(const struct verdicts *v)
{
	if (verdict_roots(v))
		verdicts_print(v);
	assert_int_equal(verdict_roots(v), 0);
}

/* Some ranks, or all, are watched from outside from the middle on. */
static void healthy_watched(void **state)
{
	uint64_t seed = test_seed();

	(void)state;
	for (size_t i = 0; i < N_LAYOUTS; i++)
		for (uint32_t ranks = 1; ranks < 1u << RANKS; ranks += 1 + (random_next(&seed) % 4)) {
			struct job_opts o = opts(i, seed);
			struct verdicts v;

			o.run_ahead = ranks & 1;
			o.no_watchdog = ranks & 2;   /* no end of an operation is seen but by waits, */
			o.no_sync_probe = ranks & 4; /* or by polls, or at all */
			play(&o, ranks, watch, &v);
			silent(&v);
			verdicts_free(&v);
		}
}

static void healthy_without_events(void **state)
{
	uint64_t seed = test_seed();

	(void)state;
	for (size_t i = 0; i < N_LAYOUTS; i++)
		for (uint32_t ranks = 1; ranks < 1u << RANKS; ranks += 1 + (random_next(&seed) % 4)) {
			struct job_opts o = opts(i, seed);
			struct verdicts v;

			o.run_ahead = ranks & 1;
			o.no_watchdog = ranks & 2;
			o.faults[0] =
				(struct fault){ FAULT_EVAL, 0, FAULT_STEP, 0, 40, 0 }; /* all wait for something else */
			play(&o, ranks, without_events, &v);
			silent(&v);
			verdicts_free(&v);
		}
}

static void named(const struct job_opts *o, uint32_t ranks, void (*rewrite)(struct rewritten *, const struct event *),
		  enum hang_class class)
{
	const struct seen_finding *s;
	struct verdicts v;

	play(o, ranks, rewrite, &v);
	s = verdict_of(&v, FINDING_HANG);
	if (!s || s->f.n_ranks != 1 || s->f.ranks[0] != o->faults[0].rank || s->f.class != class)
		verdicts_print(&v);
	assert_non_null(s);
	assert_int_equal(s->f.n_ranks, 1);
	assert_int_equal(s->f.ranks[0], o->faults[0].rank);
	assert_int_equal(s->f.class, class);
	verdicts_free(&v);
}

/* The rank at fault, a peer of it, or all are watched: it is named all the same. */
static void faults_named(void **state)
{
	uint64_t seed = test_seed();

	(void)state;
	for (int rank = 0; rank < RANKS; rank++) {
		uint32_t peer = 1u << (rank + 1) % RANKS, masks[] = { 1u << rank, peer, (1u << RANKS) - 1 };

		for (int i = 0; i < 3; i++) {
			struct job_opts o = opts(0, seed + rank);

			o.faults[0] = (struct fault){ FAULT_STOP, rank, FAULT_STEP, 0, JOB_FOREVER, 2 };
			named(&o, masks[i], watch, HANG_STOPPED);
			o.faults[0].kind = FAULT_HANG;
			named(&o, masks[i], watch, HANG_MISSING_ENTER);
			named(&o, masks[i], without_events, HANG_MISSING_ENTER);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(healthy_watched),
		cmocka_unit_test(healthy_without_events),
		cmocka_unit_test(faults_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
