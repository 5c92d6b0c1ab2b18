/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_time.c - a rank whose GPU takes longer for its own work than its peers' do, by the framework's own measurements.
 * A host that runs ahead shows nothing of a slow GPU in its calls, but PyTorch's DDP measures its forward pass every
 * 100 iterations, and asks the driver for the result. One reading proves nothing, where the work differs from rank to
 * rank.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed.h"
#include "base/sorted.h"
#include "detect/detect.h"

#define READING_NS 100000000ull /* results asked for within that belong together */
#define READINGS 12
#define PEERS_MAX 256   /* of a larger role the first so many: their median is as good */
#define SLOW_SHARE 0.05 /* of the step, as for the blame walk */
#define SURE 10.0       /* standard errors of what the peers differ by: every reading of every rank is a trial, and */
#define FREEDOM_MIN \
	9 /* values behind that standard error: two ranks need ten readings, four need four, eight three \
	   */

struct reading {
	uint64_t ts_ns;
	int n_spans;
	double gpu_s;
};

struct timed { /* one rank */
	struct keyed proc;
	uint64_t start_ns; /* of the process: distinguishes a number that is used again */
	struct reading last;
	double over_s[READINGS]; /* than the median of its peers, newest last */
	double gpu_s[READINGS];
	int n;
	uint64_t first_ns; /* of over_s[0] */
	uint64_t open_since_ns;
};

struct gpu_time {
	struct keyed_table ranks;
};

static struct timed *timed_of(struct gpu_time *g, const struct proc *p)
{
	struct timed *t = keyed_get(&g->ranks, p->key, 0, sizeof(*t));

	if (t)
		t->start_ns = p->start_ns;
	return t;
}

/* The newest results, if no more of them can come. */
static bool reading_of(const struct model *m, const struct proc *p, struct reading *ret)
{
	uint64_t n = p->n_gpu_spans, newest;

	if (!n)
		return false;
	newest = p->gpu_spans[(n - 1) % GPU_SPANS_KEPT].ts_ns;
	*ret = (struct reading){ .ts_ns = newest };
	for (; n && ret->n_spans < GPU_SPANS_KEPT; n--) {
		const struct gpu_span *s = &p->gpu_spans[(n - 1) % GPU_SPANS_KEPT];

		if (s->ts_ns + READING_NS < newest)
			break;
		ret->n_spans++;
		ret->gpu_s += s->gpu_ns * 1e-9;
	}
	return m->now_ns > newest + READING_NS;
}

static bool comparable(const struct proc *p, const struct proc *o)
{
	return o->steps->role && o->steps->role == p->steps->role && o->job == p->job && !o->dead && !o->is_child;
}

/* Of the same iterations: read within two of them. */
static bool together(const struct reading *a, const struct reading *b, double step_s)
{
	double apart_s = (a->ts_ns > b->ts_ns ? a->ts_ns - b->ts_ns : b->ts_ns - a->ts_ns) * 1e-9;

	return a->n_spans == b->n_spans && apart_s < 2 * step_s + 2 * READING_NS * 1e-9;
}

/* Median of the peers' times in the same reading; false: none, or one of them is still to come. */
static bool peers_median(const struct model *m, const struct proc *p, const struct reading *mine, double *ret_s)
{
	double times[PEERS_MAX];
	struct reading r;
	int n = 0;

	for (const struct proc *o = m->procs; o && n < PEERS_MAX; o = o->next) {
		if (o == p || !comparable(p, o))
			continue;
		if (!reading_of(m, o, &r) || !together(mine, &r, p->steps->median_s))
			return false;
		times[n++] = r.gpu_s;
	}
	*ret_s = doubles_lower_median(times, n);
	return n > 0;
}

static void over_push(struct timed *t, const struct reading *r, double over_s)
{
	if (t->n == READINGS) {
		memmove(t->over_s, t->over_s + 1, (READINGS - 1) * sizeof(*t->over_s));
		memmove(t->gpu_s, t->gpu_s + 1, (READINGS - 1) * sizeof(*t->gpu_s));
		t->n--;
	}
	if (!t->n)
		t->first_ns = r->ts_ns;
	t->over_s[t->n] = over_s;
	t->gpu_s[t->n++] = r->gpu_s;
	t->last = *r;
}

static double mean(const double *v, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += v[i];
	return n ? sum / n : 0;
}

static double squares(const double *v, int n)
{
	double m = mean(v, n), sum = 0;

	for (int i = 0; i < n; i++)
		sum += (v[i] - m) * (v[i] - m);
	return sum;
}

/* How far from its own mean a peer is in one reading: what chance alone does. */
static double peers_deviation(const struct gpu_time *g, const struct model *m, const struct proc *p, int n,
			      int *ret_freedom)
{
	double sum = 0;

	*ret_freedom = 0;
	for (const struct timed *t = g->ranks.all; t; t = t->proc.next) {
		const struct proc *o = model_proc(m, t->proc.a);

		if (!o || o == p || !comparable(p, o) || t->n < n)
			continue;
		sum += squares(t->over_s + t->n - n, n);
		*ret_freedom += n - 1;
	}
	return *ret_freedom ? sqrt(sum / *ret_freedom) : 0;
}

/* Over the last `n` readings it was slow beyond chance. */
static bool slow_over(const struct gpu_time *g, const struct model *m, const struct proc *p, const struct timed *t,
		      int n)
{
	double over = mean(t->over_s + t->n - n, n), by_chance;
	int freedom;

	if (over < SLOW_SHARE * p->steps->median_s)
		return false;
	by_chance = peers_deviation(g, m, p, n, &freedom);
	return freedom >= FREEDOM_MIN && over > SURE * by_chance / sqrt(n);
}

static void decide(const struct gpu_time *g, const struct model *m, const struct proc *p, struct timed *t)
{
	bool slow = false;

	for (int n = 3; n <= t->n && !slow; n++)
		slow = slow_over(g, m, p, t, n);
	if (slow && !t->open_since_ns)
		t->open_since_ns = t->last.ts_ns;
	else if (t->open_since_ns && t->over_s[t->n - 1] < SLOW_SHARE / 2 * p->steps->median_s)
		t->open_since_ns = t->n = 0;
}

/* A new reading of the rank and all its peers. */
static void reading_take(const struct model *m, const struct proc *p, struct timed *t, bool *ret_new)
{
	struct reading r;
	double peers;

	*ret_new = false;
	if (!reading_of(m, p, &r) || r.ts_ns == t->last.ts_ns || p->steps->median_s <= 0)
		return;
	if (!peers_median(m, p, &r, &peers))
		return;
	if (r.n_spans != t->last.n_spans)
		t->n = 0;
	over_push(t, &r, r.gpu_s - peers);
	*ret_new = true;
}

static struct finding *straggler_of(struct finding_list *found, uint64_t proc)
{
	for (size_t i = 0; i < found->n; i++)
		if (found->items[i].kind == FINDING_STRAGGLER && found->items[i].n_ranks == 1 &&
		    finding_proc(&found->items[i], 0) == proc)
			return &found->items[i];
	return NULL;
}

/* The blame walk may have named it already: then the measurement is the cause. */
static int report(const struct proc *p, const struct timed *t, struct finding_list *found)
{
	struct finding *f = straggler_of(found, p->key);
	double over = mean(t->over_s, t->n), step = p->steps->median_s;

	if (!f) {
		f = finding_list_add(found);
		if (!f)
			return -ENOMEM;
		f->kind = FINDING_STRAGGLER;
		f->subject = subject_rank(proc_rank(p), p->key);
		finding_identify(f, "gpu_time", 0, t->open_since_ns);
		f->since_ns = t->first_ns;
		f->confidence = 0.95;
		finding_add_rank(f, proc_rank(p), p->key);
		finding_note(f, EVIDENCE_BLAME_PERCENT, 100 * over / step);
		finding_note(f, EVIDENCE_STEP_S, step);
	}
	f->cause = CAUSE_GPU;
	finding_note(f, EVIDENCE_GPU_S, mean(t->gpu_s, t->n));
	finding_note(f, EVIDENCE_GPU_S_OVER_PEERS, over);
	finding_note(f, EVIDENCE_GPU_READINGS, t->n);
	return 0;
}

/* A process that is gone leaves nothing behind for the next one of its number. */
static bool is_same_process(void *entry, const void *model)
{
	const struct timed *t = entry;
	const struct proc *p = model_proc(model, t->proc.a);

	return p && !p->dead && p->start_ns == t->start_ns;
}

static int gpu_time_tick(void *state, const struct model *m, struct finding_list *found)
{
	struct gpu_time *g = state;
	int err = 0;

	keyed_keep(&g->ranks, is_same_process, m);
	for (const struct proc *p = m->procs; p != m->past && !err; p = proc_next(p)) {
		struct timed *t = p->n_gpu_spans && !p->dead ? timed_of(g, p) : NULL;
		bool fresh;

		if (!t)
			continue;
		reading_take(m, p, t, &fresh);
		if (fresh)
			decide(g, m, p, t);
		if (t->open_since_ns)
			err = report(p, t, found);
	}
	return err;
}

static void gpu_time_release(void *state)
{
	struct gpu_time *g = state;

	keyed_free(&g->ranks);
}

const struct detector detector_gpu_time = {
	.name = "gpu_time",
	.help = "a rank whose GPU takes longer than its peers' by the framework's own measurements",
	.state_bytes = sizeof(struct gpu_time),
	.release = gpu_time_release,
	.tick = gpu_time_tick,
};
