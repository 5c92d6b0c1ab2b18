/* SPDX-License-Identifier: Apache-2.0
 *
 * test_life_calls.c - a fault amid the life of a job whose calls are seen (the scripted job of job_script.h): uneven
 * sequences, garbage collection, checkpoints, uploads, evaluations, compilers, logging, communicators made anew, all
 * drawn. The fault is named in time, counted from the first peer that waits; nobody else is critical at any time, nor
 * named from then on. Drawn from SEED; TRIALS=n (two of each kind;
 * with LONG=1 60; with SHORT=1, as make mutate sets it, one of each).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/job/job_script.h"

#define STEPS 360
#define FAULT_STEP 330 /* and later; life is before it */
#define N_PHASES 6     /* what comes with one step in fifty is no pause, but how the job is */
#define GONE_S 2.1
#define NAMED_S 5.0
#define MISMATCH_S 1.0
#define BLOCKED_MAX_S 6.5
#define FAULT (JOB_FAULTS - 2) /* and what belongs to it behind it */

static const struct kind {
	const char *name;
	enum fault_kind fault;
	enum finding_kind finding;
	enum hang_class class;
	double bar_s;
	enum severity severity; /* at once */
	bool needs_pp;
} kinds[] = {
	{ "F1 stop", FAULT_STOP, FINDING_HANG, HANG_STOPPED, GONE_S, SEVERITY_CRITICAL, false },
	{ "F2 kill", FAULT_KILL, FINDING_HANG, HANG_PROCESS_DEAD, GONE_S, SEVERITY_CRITICAL, false },
	{ "F3, F6 hang", FAULT_HANG, FINDING_HANG, HANG_MISSING_ENTER, NAMED_S, SEVERITY_WARNING, false },
	{ "F4 order", FAULT_ORDER, FINDING_HANG, HANG_DEADLOCK, NAMED_S, SEVERITY_CRITICAL, false },
	{ "F5 mismatch", FAULT_MISMATCH, FINDING_MISMATCH, 0, MISMATCH_S, SEVERITY_CRITICAL, false },
	{ "F7 send", FAULT_SKIP_SEND, FINDING_HANG, HANG_P2P_UNMATCHED, NAMED_S, SEVERITY_CRITICAL, true },
	{ "F7 recv", FAULT_SKIP_RECV, FINDING_HANG, HANG_P2P_UNMATCHED, NAMED_S, SEVERITY_CRITICAL, true },
	{ "F8 dstate", FAULT_DSTATE, FINDING_D_STATE, 0, BLOCKED_MAX_S, SEVERITY_CRITICAL, false },
	{ "F9 child", FAULT_DSTATE_CHILD, FINDING_D_STATE, 0, BLOCKED_MAX_S, SEVERITY_CRITICAL, false },
	{ "F18 init", FAULT_INIT, FINDING_HANG, HANG_INIT, NAMED_S, SEVERITY_WARNING, false },
};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

static double worst_s[N_KINDS];

static double between(uint64_t *rng, double lo, double hi)
{
	return lo + (hi - lo) * (double)random_next(rng) / (double)(1ull << 31);
}

/* --- life --- */

static struct fault phase_draw(uint64_t *rng, int ranks, int step)
{
	int rank = random_next(rng) % ranks, at = random_next(rng) % 4;

	switch (random_next(rng) % 7) {
	case 0: return (struct fault){ FAULT_HANG, 0, step, 0, between(rng, 2, 8), 0 };      /* a checkpoint */
	case 1: return (struct fault){ FAULT_IO, 0, step, 0, between(rng, 2, 10), 0 };       /* an upload */
	case 2: return (struct fault){ FAULT_BUSY, rank, step, 0, between(rng, 1, 20), at }; /* a compiler */
	case 3: return (struct fault){ FAULT_EVAL, rank, step, 0, between(rng, 2, 20), 0 };
	case 4: return (struct fault){ FAULT_HANG, rank, step, 0, between(rng, 0.2, 4), 0 }; /* data workers begin */
	case 5: return (struct fault){ FAULT_LOG, rank, step, between(rng, 10, 40), 0, 0 };
	default: return (struct fault){ FAULT_BUSY, rank, step, 0, between(rng, 0.05, 2), at }; /* a collection */
	}
}

static void life_draw(struct job_opts *o, uint64_t *rng)
{
	o->steps = STEPS;
	o->lengths = between(rng, 0, 0.3);
	o->gc_share = 0.05;
	o->gc_s = between(rng, 0.05, 0.4);
	o->last_stage = between(rng, 0, 0.3);
	o->run_ahead = random_next(rng) % 2;
	o->check_sync = random_next(rng) % 2;
	for (int i = 0; i < N_PHASES; i++)
		o->faults[i] = phase_draw(rng, o->ranks, 20 + 50 * i + random_next(rng) % 40);
	if (random_next(rng) % 2)
		o->faults[N_PHASES] = (struct fault){ FAULT_RESTART, 0, 30 + random_next(rng) % 250, 0, 0, 0 };
}

/* --- the fault --- */

static void fault_draw(struct job_opts *o, const struct kind *k, uint64_t *rng)
{
	struct fault *f = &o->faults[FAULT];

	*f = (struct fault){ k->fault,    random_next(rng) % o->ranks, FAULT_STEP + random_next(rng) % 8, 0,
			     JOB_FOREVER, random_next(rng) % 4 };
	if (k->fault == FAULT_INIT)
		f->at = 0;
	if (k->fault == FAULT_DSTATE_CHILD) { /* its rank waits for it */
		f[1] = *f;
		f[1].kind = FAULT_HANG;
	}
}

/* When the first peer entered what is named. */
static uint64_t first_wait_ns(const struct job *j, const struct finding *f, int rank)
{
	uint64_t first = 0;

	for (size_t i = 0; i < j->n_truths; i++) {
		const struct truth *t = &j->truths[i];

		if (f->has_op && t->comm == f->comm && t->seq == f->seq && t->kind == f->op && t->rank != rank &&
		    (!first || t->enqueue_ns < first))
			first = t->enqueue_ns;
	}
	return first;
}

static bool is_culprit(const struct job_opts *o, const struct kind *k, int rank)
{
	int r = o->faults[FAULT].rank, stage = o->tp * o->dp;

	if (k->fault != FAULT_ORDER) /* its data-parallel group */
		return rank == r;
	return rank / stage == r / stage && rank % o->tp == r % o->tp;
}

static bool names_culprits_only(const struct job_opts *o, const struct kind *k, const struct finding *f)
{
	for (int i = 0; i < f->n_ranks; i++)
		if (!is_culprit(o, k, f->ranks[i]))
			return false;
	return f->n_ranks > 0;
}

/* --- what is said --- */

static const struct seen_finding *named(const struct job *j, const struct kind *k, const struct verdicts *v)
{
	for (size_t i = 0; i < v->n; i++) {
		const struct seen_finding *s = &v->all[i];

		if (s->f.kind == k->finding && (s->f.kind != FINDING_HANG || s->f.class == k->class) && s->warned_ns &&
		    s->warned_ns >= j->fault_ns[FAULT] && names_culprits_only(&j->o, k, &s->f))
			return s;
	}
	return NULL;
}

/* A finding that nobody should have made; NULL none. Before the fault a pause at a call site that is new is a warning.
 */
static const struct seen_finding *wrong(const struct job *j, const struct kind *k, const struct verdicts *v)
{
	for (size_t i = 0; i < v->n; i++) {
		const struct seen_finding *s = &v->all[i];
		bool later = s->open_ns >= j->fault_ns[FAULT];

		if (s->f.caused_by_key || (later && names_culprits_only(&j->o, k, &s->f)))
			continue;
		if (s->critical_ns || (later && s->warned_ns && s->f.n_ranks))
			return s;
	}
	return NULL;
}

static double late_s(const struct job *j, const struct kind *k, const struct seen_finding *s)
{
	uint64_t from = j->fault_ns[FAULT], first = first_wait_ns(j, &s->f, s->f.ranks[0]);

	if (k->finding == FINDING_MISMATCH || k->fault == FAULT_INIT || k->fault == FAULT_ORDER)
		from = s->f.since_ns;
	else if (k->finding == FINDING_HANG && first > from)
		from = first;
	return (s->warned_ns - (double)from) / SEC;
}

/* NULL: all is well. */
static const char *judge(const struct job *j, const struct kind *k, const struct verdicts *v)
{
	static char why[120];
	const struct seen_finding *s = named(j, k, v);
	double late;

	if (wrong(j, k, v))
		return "somebody else is named";
	if (!s)
		return "not named";
	late = late_s(j, k, s);
	worst_s[k - kinds] = late > worst_s[k - kinds] ? late : worst_s[k - kinds];
	if (late > k->bar_s)
		snprintf(why, sizeof(why), "named after %.2f s, bar %.1f s", late, k->bar_s);
	else if ((k->severity == SEVERITY_CRITICAL) != (s->critical_ns == s->warned_ns))
		snprintf(why, sizeof(why), "critical after %.2f s more", (s->critical_ns - (double)s->warned_ns) / SEC);
	else
		return NULL;
	return why;
}

static bool trial_run(uint64_t seed, const struct kind *k)
{
	static const int layouts[][3] = {
		{ 2, 2, 2 }, { 1, 2, 4 }, { 1, 4, 2 }, { 1, 8, 1 }, { 2, 4, 1 }, { 1, 4, 1 }
	};
	uint64_t rng = seed;
	const int *l = layouts[random_next(&rng) % (k->needs_pp ? 3 : 6)];
	struct job_opts o = job_usual(l[0], l[1], l[2], seed);
	struct verdicts v;
	struct job *j;
	const char *why;

	life_draw(&o, &rng);
	fault_draw(&o, k, &rng);
	j = job_new(&o);
	job_play(j, &v, NULL, NULL);
	why = judge(j, k, &v);
	if (why) {
		printf("SEED=%llu TRIALS=1 FIRST=%zu: %s, rank %d, step %d, tp=%d dp=%d pp=%d, struck at %.2f s: %s\n",
		       (unsigned long long)seed, k - kinds, k->name, o.faults[FAULT].rank, o.faults[FAULT].step, o.tp,
		       o.dp, o.pp, (j->fault_ns[FAULT] - (double)JOB_T0) / SEC, why);
		if (getenv("SHOW"))
			verdicts_print(&v);
	}
	verdicts_free(&v);
	job_free(j);
	return !why;
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
	return getenv(name) ? strtoull(getenv(name), NULL, 0) : otherwise;
}

int main(void)
{
	const char *is_long = getenv("LONG");
	uint64_t usual = getenv("SHORT") ? N_KINDS : is_long && *is_long ? 60 : 2 * N_KINDS;
	uint64_t trials = number_of("TRIALS", usual);
	uint64_t rng = test_seed(), first = number_of("FIRST", 0);
	int failed = 0;

	for (uint64_t i = 0; i < trials; i++)
		failed += !trial_run(i ? random_next(&rng) : rng, &kinds[(first + i) % N_KINDS]);
	for (size_t k = 0; k < N_KINDS; k++)
		printf("  %-12s named after %.2f s at most\n", kinds[k].name, worst_s[k]);
	printf("%d of %llu wrong\n", failed, (unsigned long long)trials);
	return failed != 0;
}
