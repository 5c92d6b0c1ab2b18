/* SPDX-License-Identifier: Apache-2.0
 *
 * history.c - when blame is a verdict: 5 % of the step in 4 of the last 5 iterations or in 10 of 20, and well above
 * what the job's natural variation spreads over everybody.
 */
#include "detect/history.h"

#include <string.h>

#define SLOW_RECENT 4
#define SLOW_HISTORY 10
#define NOISE_FACTOR 2.5      /* above the blame that natural variation spreads; more while little of it was seen: */
#define NOISE_UNSEEN 0.075    /* over the number of iterations: what little was seen may be luck */
#define NOISE_FACTOR_NEW 20.0 /* plus this over the number of iterations */
#define NAMES_MAX 8         /* a larger set is no name */

bool rank_has_clock(const struct proc *p)
{
	return !p->dead && !p->is_child && p->steps->period_ops && p->last_op;
}

int times_slow(const struct job_clock *j, const struct blamed *d, int last)
{
	int n = 0;

	for (int i = 1; i <= last && (uint64_t)i <= j->n; i++)
		n += d->slow[(j->n - i) % HISTORY];
	return n;
}

double recent_mean(const struct job_clock *j, const double *of)
{
	double sum = 0;
	int n = 0;

	for (; n < RECENT && (uint64_t)n < j->n; n++)
		sum += of[(j->n - 1 - n) % HISTORY];
	return n ? sum / n : 0;
}

static bool often(const struct job_clock *j, const struct blamed *d)
{
	return times_slow(j, d, RECENT) >= SLOW_RECENT || times_slow(j, d, HISTORY) >= SLOW_HISTORY;
}

/* What a job's natural variation earns somebody in each iteration: the blame of those that are not slow themselves. */
static double noise_share(const struct job_clock *j, const struct blamed *d, int n_ranks)
{
	double sum = 0;

	for (const struct blamed *o = j->blamed; o; o = o->next)
		if (o != d && times_slow(j, o, RECENT) < SLOW_RECENT)
			sum += o->usual_share;
	return (n_ranks > 1 ? sum * n_ranks / (n_ranks - 1) : sum) + NOISE_UNSEEN / j->n;
}

static int ranks_of(const struct job_clock *j, const struct model *m)
{
	int n = 0;

	for (const struct proc *p = m->procs; p; p = p->next)
		n += rank_has_clock(p) && !strcmp(p->job, j->job);
	return n;
}

void slow_decide(struct job_clock *j, const struct model *m, struct blamed *d)
{
	double factor = NOISE_FACTOR + NOISE_FACTOR_NEW / (j->n < HISTORY ? j->n : HISTORY);

	if (!times_slow(j, d, RECENT)) {
		d->open_since_ns = 0;
		return;
	}
	if (d->open_since_ns || !often(j, d) || recent_mean(j, d->share) < factor * noise_share(j, d, ranks_of(j, m)))
		return;
	for (int i = RECENT; !d->open_since_ns && i >= 1; i--)
		if ((uint64_t)i <= j->n && d->slow[(j->n - i) % HISTORY])
			d->open_since_ns = j->begin_ns[(j->n - i) % HISTORY];
}

bool blame_structural(const struct job_clock *j, const struct model *m, const struct blamed *d)
{
	const struct proc *p = model_proc(m, d->pids[0]), *q;
	int role = 0, slow = 0, all = 0;

	for (q = m->procs; p && q; q = q->next) {
		if (!rank_has_clock(q) || strcmp(q->job, j->job))
			continue;
		all++;
		if (q->steps->role != p->steps->role)
			continue;
		role++;
		for (const struct blamed *o = j->blamed; o; o = o->next)
			slow += o->open_since_ns && o->n == 1 && o->pids[0] == q->tgid;
	}
	return !p || d->n > NAMES_MAX || 2 * (d->n == 1 ? slow : d->n) > (d->n == 1 ? role : all);
}

bool blame_named_better(const struct job_clock *j, const struct blamed *d)
{
	for (const struct blamed *o = j->blamed; o && d->n > 1; o = o->next)
		for (int i = 0; o->open_since_ns && o->n < d->n && i < d->n; i++)
			if (o->pids[0] == d->pids[i])
				return true;
	return false;
}
