/* SPDX-License-Identifier: Apache-2.0
 *
 * steps.c - an iteration clock: the smallest period of the signature sequence of what it counts, found on the reversed
 * sequence by the Z-function. A run of equal operations (all-reduce buckets of one size) has period 1 in the
 * signatures; there the pauses between calls show how many make a step.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/larger.h"
#include "base/sorted.h"
#include "model/state.h"

#define WINDOW 4096
#define REPEATS 3
#define ALIKE_MIN \
	16          /* equal operations in a row that may be a clock of their own: fewer are the layers of one step \
		     */
#define HELD_MIN 64 /* operations over which a clock proves itself; one that broke earlier was a mistake */
#define MULTIPLE_MAX 64
#define MEDIAN_OF 9

struct calls { /* that a clock counts */
	struct iteration_clock *clock;
	uint64_t n;
	const struct op *last;
};

struct window { /* newest first */
	size_t n;
	uint64_t *sig;
	size_t *z;
	double *gap_s; /* call to the call before */
};

static int window_fill(struct model *m, const struct calls *calls, struct window *w)
{
	struct model_state *st = m->state;
	uint64_t have = calls->n - calls->clock->from_n;
	const struct op *op = calls->last, *before;

	if (!st->scratch)
		st->scratch = calloc(2 * WINDOW, sizeof(*st->scratch));
	if (!st->scratch_s)
		st->scratch_s = calloc(WINDOW, sizeof(*st->scratch_s));
	if (!st->scratch || !st->scratch_s)
		return -ENOMEM;
	*w = (struct window){ .sig = st->scratch, .z = (size_t *)(st->scratch + WINDOW), .gap_s = st->scratch_s };
	for (; op && w->n < WINDOW && w->n < have; op = before) {
		before = op_before(op);
		w->sig[w->n] = op->signature;
		w->gap_s[w->n++] = before ? (double)(op->call_ns - before->call_ns) * 1e-9 : 0;
	}
	return 0;
}

/* z[i]: how far the sequence from i on repeats its own start. */
static void z_function(struct window *w)
{
	size_t l = 0, r = 0;

	w->z[0] = w->n;
	for (size_t i = 1; i < w->n; i++) {
		size_t k = i < r ? (r - i < w->z[i - l] ? r - i : w->z[i - l]) : 0;

		while (i + k < w->n && w->sig[k] == w->sig[i + k])
			k++;
		w->z[i] = k;
		if (i + k > r) {
			l = i;
			r = i + k;
		}
	}
}

/* A short period inside one iteration (layers alike) repeats too, but does not reach far back. */
static size_t period_find(const struct window *w)
{
	for (size_t p = 1; p * REPEATS <= w->n; p++)
		if (w->z[p] >= (REPEATS - 1) * p && w->z[p] + p >= w->n / 2)
			return p > 1 || w->n >= ALIKE_MIN ? p : 0;
	return 0;
}

static double mean_gap(const struct window *w)
{
	double sum = 0;

	for (size_t i = 0; i < w->n; i++)
		sum += w->gap_s[i];
	return w->n ? sum / w->n : 0;
}

static double autocorrelation(const struct window *w, double mean, size_t lag)
{
	double top = 0, bottom = 0, cap = 20 * mean;

	for (size_t i = 0; i < w->n; i++) {
		double x = fmin(w->gap_s[i], cap) - mean;

		bottom += x * x;
		if (i + lag < w->n)
			top += x * (fmin(w->gap_s[i + lag], cap) - mean);
	}
	return bottom > 0 ? top / bottom * w->n / (w->n - lag) : 0;
}

static size_t multiple_find(const struct window *w)
{
	double mean = mean_gap(w), best = 0, c[MULTIPLE_MAX + 1];
	size_t top = 0;

	for (size_t k = 1; k <= MULTIPLE_MAX && REPEATS * k <= w->n; k++) {
		c[k] = autocorrelation(w, mean, k);
		best = fmax(c[k], best);
		top = k;
	}
	if (best < 0.5 || c[1] > 0.7 * best) /* lint: there are as many as top says */
		return 1;
	for (size_t k = 2; k <= top; k++)
		if (c[k] >= 0.9 * best)
			return k;
	return 1;
}

/* First index of the least rotation of the newest whole period, in call order (Booth; Duval's two-pointer form). */
static size_t rotation_least(const struct window *w, size_t p)
{
	size_t i = 0, j = 1, k = 0;

	while (i < p && j < p && k < p) {
		uint64_t a = w->sig[p - 1 - (i + k) % p], b = w->sig[p - 1 - (j + k) % p];

		if (a == b) {
			k++;
			continue;
		}
		*(a > b ? &i : &j) += k + 1;
		j += i == j;
		k = 0;
	}
	return smaller(i, j);
}

static size_t rotation_by_pause(const struct window *w, size_t p)
{
	size_t whole = w->n / p * p, best = 0;
	double sum, most = -1;

	for (size_t i = 0; i < p; i++) {
		sum = 0;
		for (size_t k = p - 1 - i; k < whole; k += p)
			sum += w->gap_s[k];
		if (sum > most) {
			most = sum;
			best = i;
		}
	}
	return best;
}

static uint64_t role_hash(const struct window *w, size_t p, size_t rot)
{
	uint64_t h = hash_mix(2, p);

	for (size_t i = 0; i < p; i++)
		h = hash_mix(h, w->sig[p - 1 - (rot + i) % p]);
	return h ? h : 1;
}

static void clock_set(const struct calls *calls, const struct window *w, size_t base)
{
	struct iteration_clock *c = calls->clock;
	size_t period = base == 1 ? multiple_find(w) : base;
	size_t rot = rotation_least(w, base);

	if (period != c->steps.period_ops) {
		c->found_n = calls->n;
		c->steps.n = 0;
		c->steps.median_s = 0;
	}
	c->base = base;
	c->steps.period_ops = period;
	c->steps.role = role_hash(w, base, rot);
	if (period != base)
		rot = rotation_by_pause(w, period);
	c->steps.phase = (calls->n - period + rot) % period;
}

/* After a clock that held, what comes is something new; after one that did not, history still counts. */
static void clock_lost(struct iteration_clock *c)
{
	if (c->checked_n - c->found_n >= HELD_MIN && c->checked_n - c->found_n >= 8 * c->base) {
		c->from_n = c->checked_n;
		c->held = c->steps;
	}
	memset(&c->steps, 0, sizeof(c->steps));
	c->base = 0;
}

/* Do the operations since the last sample repeat those one period before? */
static bool clock_holds(const struct calls *calls)
{
	uint64_t fresh = calls->n - calls->clock->checked_n;
	const struct op *op = calls->last, *old = op;

	for (size_t i = 0; i < calls->clock->base && old; i++)
		old = op_before(old);
	for (; fresh && op && old; fresh--, op = op_before(op), old = op_before(old))
		if (op->signature != old->signature)
			return false;
	return true;
}

static double step_median_s(const struct calls *calls)
{
	const struct steps *st = &calls->clock->steps;
	const struct op *op = calls->last, *old;
	double s[MEDIAN_OF];
	size_t n = 0;

	for (; op && n < MEDIAN_OF && n < st->n; op = old) {
		old = op;
		for (size_t i = 0; i < st->period_ops && old; i++)
			old = op_before(old);
		if (old)
			s[n++] = (double)(op->call_ns - old->call_ns) * 1e-9;
	}
	return n ? doubles_nth(s, n, n / 2) : 0;
}

static int clock_search(struct model *m, const struct calls *calls)
{
	struct window w;
	size_t base;
	int err = window_fill(m, calls, &w);

	if (err)
		return err;
	calls->clock->searched_n = calls->n;
	z_function(&w);
	base = period_find(&w);
	if (base)
		clock_set(calls, &w, base);
	return 0;
}

/* A clock found on a short history is checked again when that has doubled. */
static bool search_due(const struct calls *calls)
{
	const struct iteration_clock *c = calls->clock;
	uint64_t have = calls->n - c->from_n, had = c->searched_n - c->from_n;

	return !c->base || (had < WINDOW && have >= 2 * had);
}

static int clock_tick(struct model *m, const struct calls *calls)
{
	struct iteration_clock *c = calls->clock;
	uint64_t n;
	int err = 0;

	if (calls->n == c->checked_n)
		return 0;
	if (c->base && !clock_holds(calls))
		clock_lost(c);
	if (search_due(calls))
		err = clock_search(m, calls);
	c->checked_n = calls->n;
	if (!c->steps.period_ops)
		return err;
	n = (calls->n - c->found_n) / c->steps.period_ops;
	if (n != c->steps.n) {
		c->steps.n = n;
		c->steps.median_s = step_median_s(calls);
	}
	return err;
}

static const struct op *newest_on(const struct proc *p, int device)
{
	const struct op *op = p->last_op;

	while (op && op->member->device != device)
		op = op->prev_in_proc;
	return op;
}

/* What all threads call together comes in no order that repeats: a clock of that would be chance. */
static int rank_clocks_tick(struct model *m, struct proc_own *p)
{
	int err = 0, one;

	if (p->clock.base)
		p->clock = (struct iteration_clock){ .checked_n = p->p.n_ops, .from_n = p->p.n_ops };
	for (struct rank_clock *r = p->p.rank_clocks; r; r = r->next) {
		one = clock_tick(m, &(struct calls){ &r->clock, r->n_ops, newest_on(&p->p, r->device) });
		err = err ? err : one;
	}
	return err;
}

int steps_tick(struct model *m, struct proc_own *p)
{
	if (p->p.is_child || !p->p.n_ops || p->p.reported_ns)
		return 0;
	if (p->p.by_threads)
		return rank_clocks_tick(m, p);
	return clock_tick(m, &(struct calls){ &p->clock, p->p.n_ops, p->p.last_op });
}

bool step_number(const struct steps *s, uint64_t n_ops, uint64_t *ret_step)
{
	if (!s->period_ops || s->n < REPEATS || n_ops < s->phase)
		return false;
	*ret_step = (n_ops - s->phase) / s->period_ops;
	return true;
}
