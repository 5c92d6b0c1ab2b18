/* SPDX-License-Identifier: Apache-2.0
 *
 * phase_windows.c - see phase_windows.h. Only by what the host does ranks can be distinguished: in a wait for the GPU a
 * rank waits for the slow one, too. So the GPU is the answer where no host's phase is, and all ranks wait longer for
 * it.
 */
#include "detect/straggler/phase_windows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/larger.h"
#include "detect/phrase.h"
#include "model/storage/storage.h"

#define RANKS_MOST 64    /* of a job that are compared */
#define SHOWS 0.5        /* of the excess of the rank that shows it most */
#define LONGER 0.05      /* of a step: less is not explained */
#define EXPOSED_MOST 0.2 /* of the wait: what of it is communication, at most, where the GPU is said to compute */
#define TURNS_MOST 1.5   /* of the wait: ranks that take turns explain it once, together */

static double smaller_s(double a, double b)
{
	return a < b ? a : b;
}

struct rank_series {
	struct keyed keyed; /* by the process */
	struct phase_totals at[PHASE_WINDOWS];
	uint64_t first_n, last_n; /* windows that `at` has; 0 none */
	struct phase_mean before;
};

/* A rank of the job whose steps have phases. NULL: none behind `last`. */
static const struct proc *rank_next(const struct model *m, const struct job_id *job, const struct proc *last)
{
	const struct proc *p = last ? last->next : m->procs;

	while (p != m->past && (p->dead || p->is_child || !p->has_phases || p->job != job))
		p = p->next;
	return p == m->past ? NULL : p;
}

int phase_windows_push(struct phase_windows *s, const struct model *m, const struct job_id *job, uint64_t n)
{
	struct rank_series *r;

	procs_forget(&s->forgetting, &s->ranks, &s->ranks, m);
	for (const struct proc *p = rank_next(m, job, NULL); p; p = rank_next(m, job, p)) {
		r = keyed_get(&s->ranks, p->key, 0, sizeof(*r));
		if (!r)
			return -ENOMEM;
		if (r->last_n + 1 != n)
			r->first_n = n;
		r->last_n = n;
		r->at[n % PHASE_WINDOWS] = p->phase_totals;
	}
	return 0;
}

static const struct phase_totals *boundary(const struct rank_series *r, uint64_t ago)
{
	return &r->at[(r->last_n - ago) % PHASE_WINDOWS];
}

/* Between two boundaries, so many windows ago; of these, from where on its steps are of one kind. */
static struct phase_mean mean_between(const struct rank_series *r, uint64_t from_ago, uint64_t to_ago)
{
	uint64_t kept = smaller(r->last_n - r->first_n, PHASE_WINDOWS - 1);

	if (!r->last_n || to_ago >= kept)
		return (struct phase_mean){ .known = false };
	from_ago = smaller(from_ago, kept);
	while (from_ago > to_ago + 1 && boundary(r, from_ago)->by_changes != boundary(r, to_ago)->by_changes)
		from_ago--;
	return phase_mean(boundary(r, from_ago), boundary(r, to_ago));
}

void phase_windows_compare(struct phase_windows *s, const struct model *m, const struct job_id *job, uint64_t recent,
			   uint64_t base)
{
	struct rank_series *r;

	for (const struct proc *p = rank_next(m, job, NULL); p; p = rank_next(m, job, p)) {
		r = keyed_find(&s->ranks, p->key, 0);
		if (r)
			r->before = mean_between(r, recent + base, recent);
	}
}

/* --- the verdict --- */

struct compared { /* ranks of the job, now and before; all their steps are of one kind */
	struct phase_mean now[RANKS_MOST], before[RANKS_MOST];
	const struct proc *proc[RANKS_MOST];
	int n;
	bool all;      /* no rank of the job is left out */
	double wait_s; /* that their steps became longer, at the median */
};

static struct phase_mean compared_median(const struct compared *c, const struct phase_mean *of)
{
	return phase_median(of, c->n, c->n ? c->now[0].by : STEPS_BY_RANGES);
}

static void compared_fill(struct compared *c, const struct phase_windows *s, const struct model *m,
			  const struct job_id *job, uint64_t recent)
{
	const struct rank_series *r;
	struct phase_mean now, before, none = { .known = false };

	c->n = 0;
	c->all = true;
	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p))
		c->all &= p->dead || p->is_child || p->job != job || p->has_phases;
	for (const struct proc *p = rank_next(m, job, NULL); p; p = rank_next(m, job, p)) {
		r = keyed_find(&s->ranks, p->key, 0);
		now = r && r->before.known ? mean_between(r, recent, 0) : none;
		if (!now.known || now.by != r->before.by || now.by != (c->n ? c->now[0].by : now.by) ||
		    c->n == RANKS_MOST) {
			c->all = false;
			continue;
		}
		c->now[c->n] = now;
		c->before[c->n] = r->before;
		c->proc[c->n++] = p;
	}
	now = compared_median(c, c->now);
	before = compared_median(c, c->before);
	c->wait_s = now.known && before.known ? now.step_s - before.step_s : 0;
	if (c->wait_s < LONGER * before.step_s)
		c->wait_s = 0;
}

static double longer_s(const struct compared *c, int i, int phase)
{
	return c->now[i].host_s[phase] - c->before[i].host_s[phase];
}

/* The phase that explains the wait by itself on most ranks, and of these the one that shows it most; -1 none. */
static struct phase_reason explaining(const struct compared *c)
{
	struct phase_reason most[PHASES_AND_OTHER], one, none = { .phase = -1 };
	int late[PHASES_AND_OTHER] = { 0 }, best = -1;

	for (int i = 0; i < c->n; i++) {
		one = phase_reason(&c->now[i], &c->before[i], c->wait_s);
		if (one.phase < 0)
			continue;
		if (!late[one.phase] || one.own_s - one.usual_s > most[one.phase].own_s - most[one.phase].usual_s)
			most[one.phase] = one;
		if (++late[one.phase] > (best < 0 ? 0 : late[best]))
			best = one.phase;
	}
	return best < 0 ? none : most[best];
}

/* Whose it is: who shows half of it does. One that is a little later than all the others is not the reason. */
static struct phase_verdict of_ranks(const struct compared *c)
{
	struct phase_verdict v = { .reason = explaining(c) };
	int n = 0;

	for (int i = 0; i < c->n && v.reason.phase >= 0; i++) {
		if (longer_s(c, i, v.reason.phase) < SHOWS * (v.reason.own_s - v.reason.usual_s))
			continue;
		v.proc = n ? 0 : c->proc[i]->key;
		if (n++ < PHASE_RANKS)
			phrase_list(v.ranks, sizeof(v.ranks), proc_rank(c->proc[i]));
	}
	v.who = 2 * n > c->n ? WHO_EVERYBODY : WHO_RANKS;
	if (v.who != WHO_RANKS)
		*v.ranks = 0;
	return v;
}

/* Each is late for a part of the steps only, and all of them together for all. */
static struct phase_verdict of_turns(const struct compared *c)
{
	struct phase_verdict v = { .reason.phase = -1, .who = WHO_TURNS };
	double least_s = PHASE_EXPLAINS * c->wait_s;

	for (int k = 0; k < PHASES_AND_OTHER && c->n > 1; k++) {
		double now_s = 0, before_s = 0;

		for (int i = 0; i < c->n; i++) {
			now_s += c->now[i].host_s[k];
			before_s += c->before[i].host_s[k];
		}
		if (now_s - before_s < least_s || now_s - before_s > TURNS_MOST * c->wait_s)
			continue;
		least_s = now_s - before_s;
		v.reason = (struct phase_reason){
			.phase = k, .own_s = now_s, .usual_s = before_s, .part = smaller_s(1, least_s / c->wait_s)
		};
	}
	return v;
}

/* No host is late: all of them wait longer for their GPUs. One that is not seen, or does not, may be the reason.
 */
static struct phase_verdict of_gpus(const struct compared *c)
{
	struct phase_mean now = compared_median(c, c->now), before = compared_median(c, c->before);
	struct phase_verdict v = { .reason.phase = -1, .who = WHO_EVERYBODY };

	for (int i = 0; i < c->n; i++)
		if (c->now[i].gpu_wait_s - c->before[i].gpu_wait_s < PHASE_EXPLAINS * c->wait_s)
			return v;
	if (!c->all)
		return v;
	v.reason = (struct phase_reason){ .phase = PHASE_GPU_WAIT,
					  .own_s = now.gpu_wait_s,
					  .usual_s = before.gpu_wait_s,
					  .part = smaller_s(1, (now.gpu_wait_s - before.gpu_wait_s) / c->wait_s) };
	v.computes = now.exposed_most_s - before.exposed_most_s < EXPOSED_MOST * c->wait_s;
	return v;
}

struct phase_verdict phase_windows_judge(const struct phase_windows *s, const struct model *m, const struct job_id *job,
					 uint64_t recent)
{
	struct phase_verdict v = { .reason.phase = -1 };
	struct compared *c = malloc(sizeof(*c));

	if (!c)
		return v;
	compared_fill(c, s, m, job, recent);
	if (c->wait_s > 0)
		v = of_ranks(c);
	if (v.reason.phase == PHASE_DATA_WAIT && v.proc)
		v.worker = data_worker_find(m, model_proc(m, v.proc));
	if (c->wait_s > 0 && v.reason.phase < 0)
		v = of_turns(c);
	if (c->wait_s > 0 && v.reason.phase < 0)
		v = of_gpus(c);
	free(c);
	return v;
}

bool phase_verdicts_alike(const struct phase_verdict *a, const struct phase_verdict *b)
{
	return a->reason.phase == b->reason.phase && a->who == b->who && a->computes == b->computes &&
	       !strcmp(a->ranks, b->ranks);
}

/* As the rank that is named has it, else whichever process. */
static const char *mount_of(const struct model *m, const struct phase_verdict *v)
{
	const struct proc *one = v->proc ? model_proc(m, v->proc) : NULL;
	const char *mount = one ? storage_mount(one, v->reason.storage_at) : "";

	for (const struct proc *p = m->procs; p && !*mount && !one; p = proc_next(p))
		mount = storage_mount(p, v->reason.storage_at);
	return mount;
}

void phase_verdict_note(struct finding *f, const struct model *m, const struct phase_verdict *v)
{
	static const char *const who[] = {
		[WHO_EVERYBODY] = "everybody", [WHO_RANKS] = "ranks", [WHO_TURNS] = "turns"
	};

	if (v->reason.phase < 0)
		return;
	phase_reason_note(f, &v->reason, mount_of(m, v));
	finding_note_text(f, EVIDENCE_PHASE_WHO, who[v->who]);
	finding_note_text(f, EVIDENCE_PHASE_RANKS, v->ranks);
	if (v->reason.phase == PHASE_DATA_WAIT && v->proc && model_proc(m, v->proc))
		data_worker_note(f, m, model_proc(m, v->proc), v->worker);
}

void phase_windows_free(struct phase_windows *s)
{
	keyed_free(&s->ranks);
}
