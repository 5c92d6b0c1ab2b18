/* SPDX-License-Identifier: Apache-2.0
 *
 * job_play.c - plays a scripted job into a fresh model with all detectors and keeps what they said.
 */
#include "tests/unit/job/job_script.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void note(struct verdicts *v, const struct finding *f, uint64_t now_ns)
{
	struct seen_finding *s = NULL;

	assert(f->key && f->subject.type != SUBJECT_NONE);
	for (size_t i = 0; i < v->n; i++)
		if (v->all[i].f.key == f->key)
			s = &v->all[i];
	if (!s) {
		v->all = realloc(v->all, (v->n + 1) * sizeof(*v->all));
		assert(v->all);
		s = &v->all[v->n++];
		*s = (struct seen_finding){ .open_ns = now_ns };
	}
	s->f = *f;
	if (f->severity >= SEVERITY_WARNING && !s->warned_ns)
		s->warned_ns = now_ns;
	if (f->severity == SEVERITY_CRITICAL && !s->critical_ns)
		s->critical_ns = now_ns;
	s->worst = f->severity > s->worst ? f->severity : s->worst;
	s->last_ns = now_ns;
	s->n_ticks++;
}

void job_play(const struct job *j, struct verdicts *v, void (*each)(void *arg, const struct op *op), void *arg)
{
	const struct op *op;

	memset(v, 0, sizeof(*v));
	v->m = model_new();
	v->d = detectors_new();
	assert(v->m && v->d);
	for (size_t i = 0; i < j->n_events; i++) {
		struct event e = j->events[i];

		e.cpu = 0;
		assert(model_apply(v->m, &e) == 0);
		while ((op = model_next_ended(v->m)))
			if (each)
				each(arg, op);
		if (e.kind != EV_TICK)
			continue;
		assert(detectors_tick(v->d, v->m, &v->list) == 0);
		for (size_t k = 0; k < v->list.n; k++)
			note(v, &v->list.items[k], e.ts_ns);
	}
}

void verdicts_free(struct verdicts *v)
{
	free(v->all);
	finding_list_free(&v->list);
	detectors_free(v->d);
	model_free(v->m);
}

void verdicts_print(const struct verdicts *v)
{
	for (size_t i = 0; i < v->n; i++) {
		const struct seen_finding *s = &v->all[i];

		printf("  %s/%s cause=%s n=%d rank0=%d comm=%llx seq=%llu %s open=%.3f last=%.3f since=%.3f conf=%.2f "
		       "by=%s\n",
		       finding_kind_name(s->f.kind), hang_class_name(s->f.class),
		       *finding_cause_shown(&s->f) ? finding_cause_shown(&s->f) : "-", s->f.n_ranks,
		       s->f.n_ranks ? s->f.ranks[0] : -1, (unsigned long long)s->f.comm, (unsigned long long)s->f.seq,
		       s->f.has_op ? op_kind_name(s->f.op) : "", (s->open_ns - (double)JOB_T0) / SEC,
		       (s->last_ns - (double)JOB_T0) / SEC, (s->f.since_ns - (double)JOB_T0) / SEC, s->f.confidence,
		       s->f.caused_by_key ? "yes" : "no");
		for (int k = 0; k < s->f.n_evidence; k++)
			if (evidence_is_text(s->f.evidence[k].id))
				printf("      %s=%s\n", evidence_name(s->f.evidence[k].id), s->f.evidence[k].text);
			else
				printf("      %s=%g\n", evidence_name(s->f.evidence[k].id), s->f.evidence[k].number);
	}
}

const struct seen_finding *verdict_of(const struct verdicts *v, enum finding_kind kind)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->all[i].f.kind == kind)
			return &v->all[i];
	return NULL;
}

int verdict_roots(const struct verdicts *v)
{
	int n = 0;

	for (size_t i = 0; i < v->n; i++)
		n += v->all[i].worst >= SEVERITY_WARNING && !v->all[i].f.caused_by_key;
	return n;
}

uint64_t test_seed(void)
{
	const char *s = getenv("SEED");
	uint64_t seed = s ? strtoull(s, NULL, 0) : (uint64_t)time(NULL);

	printf("SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

uint64_t random_next(uint64_t *rng)
{
	uint64_t z = *rng += 0x9e3779b97f4a7c15ull; /* splitmix64: a plain LCG repeats itself from step to step */

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return (z ^ (z >> 31)) >> 33;
}

struct job_opts job_usual(int tp, int dp, int pp, uint64_t seed)
{
	return (struct job_opts){ .ranks = tp * dp * pp,
				  .tp = tp,
				  .dp = dp,
				  .pp = pp,
				  .steps = 20,
				  .seed = seed,
				  .step_s = 0.4,
				  .jitter = 0.02,
				  .tail_s = 8 };
}
