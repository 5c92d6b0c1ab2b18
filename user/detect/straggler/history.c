/* SPDX-License-Identifier: Apache-2.0
 *
 * history.c - when blame is a verdict: 5 % of the step in 4 of the last 5 iterations or in 10 of 20, and well above
 * what the job's natural variation spreads over everybody. Where ranks take turns (random sequence lengths, garbage
 * collection) it asks for as many as luck does not give.
 */
#include "detect/straggler/history.h"
#include "detect/transfer/link_cause.h"

#include <stdlib.h>
#include <string.h>

#include "base/larger.h"

#define SLOW_RECENT 4
#define SLOW_HISTORY 10
#define SLOW_TOGETHER 3 /* of the last 5 */
#define SLOW_HISTORY_OF_TWO 16
#define SLOW_HISTORY_OF_BUSY 16 /* where it may be the host's CPUs: who waits for them changes sooner (1000) */
#define STEADY_T 6.0            /* Student's t of the last 5 */
#define LUCK 3e-5               /* as rare as that is no luck */
#define LUCK_UNSEEN 0.5         /* of an iteration: what little was seen may be luck */
#define NOISE_FACTOR 2.5        /* above the blame that natural variation spreads; more while little of it was seen: */
#define NOISE_UNSEEN 0.075      /* over the number of iterations: what little was seen may be luck */
#define NOISE_FACTOR_NEW 20.0   /* plus this over the number of iterations */
#define PROBES_CHANGE_NS 2000000000ull /* they cost too much before, and go, or prove themselves, behind */
#define PEERS_MAX 8                    /* of a job with more ranks the first so many */

static int keys_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

struct blamed *blamed_new(const struct blames *all, const struct blame *b)
{
	struct blamed *d = calloc(1, sizeof(*d));
	uint64_t *procs = d ? malloc(2 * b->n * sizeof(*procs)) : NULL;

	if (!procs) {
		free(d);
		return NULL;
	}
	d->key = b->key;
	d->n = b->n;
	d->procs = memcpy(procs, &all->procs[b->at], b->n * sizeof(*procs));
	d->sorted = memcpy(procs + b->n, procs, b->n * sizeof(*procs));
	qsort(d->sorted, d->n, sizeof(*procs), keys_order);
	return d;
}

void blamed_free(struct blamed *d)
{
	free(d->procs);
	free(d);
}

bool rank_has_clock(const struct proc *p)
{
	return !p->dead && !p->is_child && p->last_op && p->steps->period_ops;
}

const struct proc *lower_anchor(const struct proc *best, const struct proc *p)
{
	return rank_has_clock(p) && (!best || proc_rank(p) < proc_rank(best)) ? p : best;
}

const struct proc *job_anchor(const struct model *m, const struct job_id *job)
{
	const struct proc *best = NULL;

	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p))
		if (p->job == job)
			best = lower_anchor(best, p);
	return best;
}

uint64_t probes_change_since_ns(const struct model *m)
{
	uint64_t since_ns = 0;

	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p)) {
		uint64_t at_ns = rank_has_clock(p) ? p->probes_changed_ns : 0;

		if (at_ns && m->now_ns < at_ns + PROBES_CHANGE_NS && (!since_ns || at_ns < since_ns))
			since_ns = at_ns;
	}
	return since_ns > PROBES_CHANGE_NS ? since_ns - PROBES_CHANGE_NS : since_ns;
}

uint64_t slow_cause_key(const struct model *m, const struct finding_list *found, const struct job_id *job)
{
	for (size_t i = 0; i < found->n; i++) {
		const struct finding *f = &found->items[i];
		bool slow = f->kind == FINDING_STRAGGLER || f->kind == FINDING_CPU_STARVED;
		const struct proc *p = slow && f->n_ranks ? model_proc(m, finding_proc(f, 0)) : NULL;

		if (p && p->job == job)
			return f->key;
	}
	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p)) {
		uint64_t key = !p->is_child && !p->dead && p->job == job ? link_cause_key(m, found, p) : 0;

		if (key)
			return key;
	}
	return 0;
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

/* Slow itself, in the same iterations: two faults at once. Who is slow when the other is not takes turns with it. */
static bool slow_together(const struct job_clock *j, const struct blamed *a, const struct blamed *b)
{
	int n = 0;

	for (int i = 1; i <= RECENT && (uint64_t)i <= j->n; i++)
		n += a->slow[(j->n - i) % HISTORY] && b->slow[(j->n - i) % HISTORY];
	return n >= SLOW_TOGETHER;
}

static int ranks_of(const struct job_clock *j, const struct model *m)
{
	int n = 0;

	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p))
		n += rank_has_clock(p) && p->job == j->job;
	return n;
}

/* Is a rank left that is not slow together with `d`? Where all are, as both of two are in steps so long that each is
 * late somewhere, they are what varies by itself. */
static bool others_left(const struct job_clock *j, const struct blamed *d, double rivals)
{
	double together = 0;

	for (const struct blamed *o = j->blamed; o; o = o->next)
		if (o != d && slow_together(j, o, d))
			together += (double)o->n / d->n;
	return together < rivals;
}

/* One whose blame is natural variation, as far as `d` is concerned. */
static bool is_rival(const struct job_clock *j, const struct blamed *o, const struct blamed *d, double rivals)
{
	return o != d && !(slow_together(j, o, d) && others_left(j, d, rivals));
}

/* What a job's natural variation earns somebody in each iteration: the blame of those that are not slow themselves. */
static double noise_share(const struct job_clock *j, const struct blamed *d, double rivals)
{
	double sum = 0;

	for (const struct blamed *o = j->blamed; o; o = o->next)
		if (is_rival(j, o, d, rivals))
			sum += o->usual_share;
	return sum * (rivals + 1) / rivals + NOISE_UNSEEN / j->n;
}

/* P(x or more of n) when each is slow with probability p. */
static double chance(int x, int n, double p)
{
	double term = 1, sum = 0;

	for (int i = 0; i < n; i++)
		term *= 1 - p;
	for (int i = 0; i <= n; i++) {
		sum += i >= x ? term : 0;
		term *= p / (1 - p) * (n - i) / (i + 1);
	}
	return sum;
}

/* How often one of many equals is the slowest by luck: from how often its rivals are when it is not. */
static double luck_of_one(const struct job_clock *j, const struct blamed *d, double rivals)
{
	double seen = 0, others = 0, odds;

	for (int i = 1; i <= HISTORY && (uint64_t)i <= j->n; i++) {
		int at = (j->n - i) % HISTORY;
		bool other = false;

		for (const struct blamed *o = j->blamed; o && !other; o = o->next)
			other = is_rival(j, o, d, rivals) && o->slow[at];
		seen += !d->slow[at];
		others += !d->slow[at] && other;
	}
	odds = (others + LUCK_UNSEEN) / (seen + 1);
	return odds / (rivals + odds);
}

/* Too often for luck: 4 of the last 5, or 10 of 20; more where all take turns. */
static bool often(const struct job_clock *j, const struct blamed *d, double rivals)
{
	int recent = times_slow(j, d, RECENT), all = times_slow(j, d, HISTORY), n = j->n < HISTORY ? j->n : HISTORY;
	double p = luck_of_one(j, d, rivals);

	return (recent >= SLOW_RECENT && chance(recent, RECENT, p) < LUCK) ||
	       (all >= SLOW_HISTORY && chance(all, n, p) < LUCK) || (recent >= SLOW_RECENT && chance(all, n, p) < LUCK);
}

/* Alike from iteration to iteration: mean blame beyond its own spread. */
static bool steady(const struct job_clock *j, const struct blamed *d)
{
	double mean = recent_mean(j, d->share), squares = 0, one;

	for (int i = 1; i <= RECENT && (uint64_t)i <= j->n; i++) {
		one = d->share[(j->n - i) % HISTORY] - mean;
		squares += one * one;
	}
	return j->n >= RECENT && mean * mean * RECENT >= STEADY_T * STEADY_T * squares / (RECENT - 1);
}

/* Of two that take turns one is often the slower five times in a row. */
static bool is_luck(const struct job_clock *j, const struct blamed *d, double rivals)
{
	return !often(j, d, rivals) || (rivals < 2 && !steady(j, d) && times_slow(j, d, HISTORY) < SLOW_HISTORY_OF_TWO);
}

/* What was reported is over, and is no rank's natural variation. */
static void blamed_forget(struct blamed *d)
{
	memset(d->slow, 0, sizeof(d->slow));
	d->open_since_ns = 0;
	d->cause = CAUSE_NONE;
	d->delayed = 0;
	d->said = false;
	d->usual_share = 0;
}

void slow_decide(struct job_clock *j, const struct model *m, struct blamed *d)
{
	double rivals = (double)ranks_of(j, m) / d->n - 1; /* as many such sets as there are besides */
	double factor = NOISE_FACTOR + NOISE_FACTOR_NEW / (j->n < HISTORY ? j->n : HISTORY);

	if (!times_slow(j, d, RECENT)) {
		if (d->open_since_ns)
			blamed_forget(d);
		return;
	}
	rivals = rivals < 1 ? 1 : rivals;
	if (d->open_since_ns || is_luck(j, d, rivals) || recent_mean(j, d->share) < factor * noise_share(j, d, rivals))
		return;
	for (int i = RECENT; !d->open_since_ns && i >= 1; i--)
		if ((uint64_t)i <= j->n && d->slow[(j->n - i) % HISTORY])
			d->open_since_ns = j->begin_ns[(j->n - i) % HISTORY];
}

bool blame_structural(const struct job_clock *j, const struct model *m, const struct blamed *d)
{
	const struct proc *p = model_proc(m, d->procs[0]), *q;
	int role = 0, slow = 0, all = 0;

	for (q = m->procs; p && q; q = q->next) {
		if (!rank_has_clock(q) || q->job != j->job)
			continue;
		all++;
		if (q->steps->role != p->steps->role)
			continue;
		role++;
		for (const struct blamed *o = j->blamed; o; o = o->next)
			slow += o->open_since_ns && o->n == 1 && o->procs[0] == q->key;
	}
	return !p || 2 * (d->n == 1 ? slow : d->n) > (d->n == 1 ? role : all);
}

bool blame_named_better(const struct job_clock *j, const struct blamed *d)
{
	for (const struct blamed *o = j->blamed; o && d->n > 1; o = o->next)
		for (int i = 0; o->open_since_ns && o->n < d->n && i < d->n; i++)
			if (o->procs[0] == d->procs[i])
				return true;
	return false;
}

static bool is_blamed(const struct job_clock *j, const struct blamed *d, uint64_t proc)
{
	if (bsearch(&proc, d->sorted, d->n, sizeof(proc), keys_order))
		return true;
	for (const struct blamed *o = j->blamed; o; o = o->next)
		if (o->open_since_ns && o->n == 1 && o->procs[0] == proc)
			return true;
	return false;
}

/* Ranks to compare with: of its role; of a role that is blamed as a whole, anybody else. */
static int peers_rates(const struct job_clock *j, const struct model *m, const struct blamed *d, const struct proc *p,
		       uint64_t since_ns, struct cost_rates *rates)
{
	int n = 0;

	for (int any = 0; any < 2 && !n; any++)
		for (const struct proc *q = m->procs; q && n < PEERS_MAX; q = q->next)
			if (q != p && rank_has_clock(q) && q->job == j->job && !is_blamed(j, d, q->key) &&
			    (any || q->steps->role == p->steps->role))
				rates[n++] = cost_rates(&j->costs, m, q, since_ns);
	return n;
}

/* From when on what the host did counts: the last windows, as far as it is slow in them. */
static uint64_t judged_since_ns(const struct job_clock *j, const struct blamed *d)
{
	uint64_t last = j->n < RECENT ? j->n : RECENT;

	return larger(j->begin_ns[(j->n - last) % HISTORY], d->open_since_ns);
}

static struct host_cause cause_of(const struct job_clock *j, const struct model *m, const struct blamed *d,
				  uint64_t proc)
{
	uint64_t since = judged_since_ns(j, d);
	const struct proc *p = model_proc(m, proc);
	struct cost_rates own, peers[PEERS_MAX];

	if (!p)
		return (struct host_cause){ 0 };
	own = cost_rates(&j->costs, m, p, since);
	return host_cause(&own, peers, peers_rates(j, m, d, p, since, peers), recent_mean(j, d->share));
}

static int delayed_one(const struct job_clock *j, const struct model *m, const struct blamed *d, struct host_cause *ret)
{
	struct host_cause c;
	int found = -1;

	*ret = (struct host_cause){ 0 };
	for (int i = 0; i < d->n; i++) {
		c = cause_of(j, m, d, d->procs[i]);
		if (!c.cause && d->n > 1)
			continue;
		if (found >= 0)
			return -1;
		found = i;
		*ret = c;
	}
	return found;
}

int blame_cause(const struct job_clock *j, const struct model *m, struct blamed *d, struct host_cause *ret)
{
	int one = delayed_one(j, m, d, ret);

	if (one >= 0 && ret->cause) {
		d->cause = ret->cause;
		d->delayed = 1 + one;
	}
	if (d->delayed && d->delayed != 1 + one) /* said once, it stays while it is open */
		*ret = cause_of(j, m, d, d->procs[d->delayed - 1]);
	return d->delayed ? d->delayed - 1 : one;
}

bool blame_may_be_luck(const struct job_clock *j, const struct model *m, const struct blamed *d)
{
	uint64_t since = judged_since_ns(j, d);

	if (d->cause || times_slow(j, d, HISTORY) >= SLOW_HISTORY_OF_BUSY)
		return false;
	for (int i = 0; i < d->n; i++) {
		const struct proc *p = model_proc(m, d->procs[i]);
		struct cost_rates own = p ? cost_rates(&j->costs, m, p, since) : (struct cost_rates){ 0 };

		if (cost_may_be_luck(&own, recent_mean(j, d->share)))
			return true;
	}
	return false;
}
