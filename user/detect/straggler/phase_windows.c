/* SPDX-License-Identifier: Apache-2.0
 *
 * phase_windows.c - see phase_windows.h. Only what the host does tells ranks apart: in a wait for the GPU a rank waits
 * for the slow one, too. So the GPU is the answer where no host's phase is, and all ranks wait longer for it.
 */
#include "detect/straggler/phase_windows.h"

#include <errno.h>
#include <stdio.h>

#include "base/larger.h"

#define RANKS_SHOWN 16
#define EXPOSED_MOST 0.2 /* of the wait: what of it is communication, at most, where the GPU is said to compute */
#define TURNS_MOST 1.5   /* of the wait: ranks that take turns explain it once, together */

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

	while (p && (p->dead || p->is_child || !p->has_phases || p->job != job))
		p = p->next;
	return p;
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

/* Between two boundaries, so many windows ago. */
static struct phase_mean mean_between(const struct rank_series *r, uint64_t from_ago, uint64_t to_ago)
{
	uint64_t kept = smaller(r->last_n - r->first_n, PHASE_WINDOWS - 1);

	if (!r->last_n || to_ago >= kept)
		return (struct phase_mean){ .known = false };
	from_ago = smaller(from_ago, kept);
	return phase_mean(&r->at[(r->last_n - from_ago) % PHASE_WINDOWS], &r->at[(r->last_n - to_ago) % PHASE_WINDOWS]);
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

/* What the ranks' steps have become. */
struct tally {
	int n;                                 /* ranks that can be judged */
	int late[PHASES_AND_OTHER];            /* in that phase: it alone explains the wait */
	double longer_s[PHASES_AND_OTHER];     /* of all ranks together */
	struct phase_reason most[PHASES_AND_OTHER];
	int waits, computes; /* more for the GPU; and not for communication */
	struct phase_reason gpu;
};

static void host_add(struct tally *t, const struct rank_series *r, const struct phase_mean *now, double wait_s)
{
	struct phase_reason one = phase_reason(now, &r->before, wait_s);

	for (int i = 0; i < PHASES_AND_OTHER; i++) {
		double longer_s = now->host_s[i] - r->before.host_s[i];

		t->longer_s[i] += longer_s;
		if (longer_s > t->most[i].own_s - t->most[i].usual_s)
			t->most[i] = (struct phase_reason){ i, now->host_s[i], r->before.host_s[i],
							    longer_s < wait_s ? longer_s / wait_s : 1 };
	}
	if (one.phase >= 0)
		t->late[one.phase]++;
}

static void gpu_add(struct tally *t, const struct rank_series *r, const struct phase_mean *now, double wait_s)
{
	double longer_s = now->gpu_wait_s - r->before.gpu_wait_s,
	       exposed_s = now->exposed_most_s - r->before.exposed_most_s;

	if (longer_s < PHASE_EXPLAINS * wait_s)
		return;
	t->waits++;
	t->computes += exposed_s < EXPOSED_MOST * wait_s;
	if (longer_s > t->gpu.own_s - t->gpu.usual_s)
		t->gpu = (struct phase_reason){ PHASE_GPU_WAIT, now->gpu_wait_s, r->before.gpu_wait_s,
						longer_s < wait_s ? longer_s / wait_s : 1 };
}

static struct tally tally_of(const struct phase_windows *s, const struct model *m, const struct job_id *job,
			     uint64_t recent, double wait_s)
{
	const struct rank_series *r;
	struct phase_mean now;
	struct tally t = { 0 };

	for (const struct proc *p = rank_next(m, job, NULL); p; p = rank_next(m, job, p)) {
		r = keyed_find(&s->ranks, p->key, 0);
		if (!r || !r->before.known)
			continue;
		now = mean_between(r, recent, 0);
		if (!now.known)
			continue;
		t.n++;
		host_add(&t, r, &now, wait_s);
		gpu_add(&t, r, &now, wait_s);
	}
	return t;
}

struct phase_verdict phase_windows_judge(const struct phase_windows *s, const struct model *m, const struct job_id *job,
					uint64_t recent, double wait_s)
{
	struct phase_verdict v = { .reason.phase = -1 };
	struct tally t = tally_of(s, m, job, recent, wait_s);
	int best = -1;

	for (int i = 0; i < PHASES_AND_OTHER; i++)
		if (t.late[i] && (best < 0 || t.late[i] > t.late[best]))
			best = i;
	if (best >= 0) {
		v.reason = t.most[best];
		v.who = 2 * t.late[best] > t.n ? WHO_EVERYBODY : WHO_RANKS;
		return v;
	}
	for (int i = 0; i < PHASES_AND_OTHER; i++)
		if (t.n > 1 && t.longer_s[i] >= PHASE_EXPLAINS * wait_s && t.longer_s[i] <= TURNS_MOST * wait_s &&
		    (best < 0 || t.longer_s[i] > t.longer_s[best]))
			best = i;
	if (best >= 0) {
		v.reason = t.most[best];
		v.reason.part = t.longer_s[best] < wait_s ? t.longer_s[best] / wait_s : 1;
		v.who = WHO_TURNS;
	} else if (2 * t.waits > t.n) {
		v.reason = t.gpu;
		v.computes = 2 * t.computes > t.n;
	}
	return v;
}

/* "3,7": ranks whose own phase explains it. */
static void ranks_note(const struct phase_windows *s, const struct model *m, const struct job_id *job, uint64_t recent,
		       double wait_s, int phase, struct finding *f, struct finding_list *found)
{
	const struct rank_series *r;
	struct phase_mean now;
	char text[RANKS_SHOWN * 12] = "";
	int n = 0, length = 0;

	for (const struct proc *p = rank_next(m, job, NULL); p && n < RANKS_SHOWN; p = rank_next(m, job, p)) {
		r = keyed_find(&s->ranks, p->key, 0);
		if (!r)
			continue;
		now = mean_between(r, recent, 0);
		if (phase_reason(&now, &r->before, wait_s).phase != phase)
			continue;
		length += proc_rank(p) < 0 ? snprintf(text + length, sizeof(text) - length, "%s?", n ? "," : "")
					   : snprintf(text + length, sizeof(text) - length, "%s%d", n ? "," : "",
						      proc_rank(p));
		n++;
	}
	finding_note_text(f, EVIDENCE_PHASE_RANKS, finding_list_text(found, text));
}

void phase_windows_note(const struct phase_windows *s, const struct model *m, const struct job_id *job, uint64_t recent,
		       double wait_s, const struct phase_verdict *v, struct finding *f, struct finding_list *found)
{
	static const char *const who[] = {
		[WHO_EVERYBODY] = "everybody", [WHO_RANKS] = "ranks", [WHO_TURNS] = "turns"
	};

	if (v->reason.phase < 0)
		return;
	phase_reason_note(f, &v->reason);
	finding_note_text(f, EVIDENCE_PHASE_WHO, who[v->who]);
	if (v->who == WHO_RANKS)
		ranks_note(s, m, job, recent, wait_s, v->reason.phase, f, found);
}

void phase_windows_free(struct phase_windows *s)
{
	keyed_free(&s->ranks);
}
