/* SPDX-License-Identifier: Apache-2.0
 *
 * compare.c - see compare.h.
 */
#include "compare/compare.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/keyed.h"
#include "base/sorted.h"

#define PIECES 10
#define ERRORS 4.0           /* a hundred comparisons of one job with itself: one in 160 would exceed it by chance */
#define MAD_TO_SIGMA 1.4826  /* of a normal distribution */
#define MEDIAN_ERROR 1.2533  /* of a median over that of a mean: sqrt(pi / 2) */
#define FLOOR_S 20e-6        /* clocks and probes */
#define STEP_SHARE (1.0 / 3) /* of `share`, of the whole step */

/* --- medians --- */

static double median_of(const double *v, size_t n, double *room)
{
	memcpy(room, v, n * sizeof(*v));
	return doubles_median(room, n);
}

/* Of the median of `n` values: room for as many. */
static double error_of(const double *v, size_t n, double center, double *room)
{
	for (size_t i = 0; i < n; i++)
		room[i] = fabs(v[i] - center);
	return MEDIAN_ERROR * MAD_TO_SIGMA * doubles_median(room, n) / sqrt((double)n);
}

/* Of its pieces, each of which has its own level: what comes and goes over seconds shows in them alone. */
static double pieces_error(const struct durations *s, double center, double *room)
{
	double medians[PIECES];

	if (s->n < 2 * PIECES)
		return 0;
	for (size_t i = 0; i < PIECES; i++) {
		size_t from = i * s->n / PIECES, to = (i + 1) * s->n / PIECES;

		medians[i] = median_of(s->v + from, to - from, room);
	}
	return error_of(medians, PIECES, center, room);
}

static double durations_error(const struct durations *s, double center, double *room)
{
	return fmax(error_of(s->v, s->n, center, room), pieces_error(s, center, room));
}

/* --- one thing --- */

static double noise_of(const struct difference *d, double share, double step_s, double *room)
{
	double a = durations_error(&d->a->s, d->a_s, room), b = durations_error(&d->b->s, d->b_s, room);
	double error = sqrt(a * a + b * b); /* hypot() takes glibc 2.35, and a tarball must do with 2.34 */
	double noise = fmax(fmax(ERRORS * error, share * d->a_s), FLOOR_S);

	if (step_s > 0 && d->a->per_step > 0)
		noise = fmax(noise, share * STEP_SHARE * step_s / d->a->per_step);
	return noise;
}

static bool is_short(const struct measure *m)
{
	return m && m->s.n < COMPARE_VALUES_MIN;
}

static void difference_judge(struct difference *d, double share, double step_s, double *room)
{
	d->a_s = d->a ? durations_median(&d->a->s) : 0;
	d->b_s = d->b ? durations_median(&d->b->s) : 0;
	if (is_short(d->a) || is_short(d->b)) {
		d->verdict = COMPARE_TOO_FEW;
		return;
	}
	if (!d->a || !d->b) {
		d->verdict = d->a ? COMPARE_ONLY_A : COMPARE_ONLY_B;
		return;
	}
	d->noise_s = noise_of(d, share, step_s, room);
	d->step_s = (d->b_s - d->a_s) * d->a->per_step;
	if (fabs(d->b_s - d->a_s) > d->noise_s)
		d->verdict = d->b_s > d->a_s ? COMPARE_SLOWER : COMPARE_FASTER;
}

static void counted(struct comparison *c, enum verdict v)
{
	c->n_slower += v == COMPARE_SLOWER;
	c->n_faster += v == COMPARE_FASTER;
	c->n_too_few += v == COMPARE_TOO_FEW;
	c->n_compared += v == COMPARE_SAME || v == COMPARE_SLOWER || v == COMPARE_FASTER;
}

/* --- which is which --- */

struct pair {
	struct keyed keyed;
	struct difference *d;
};

static int pair_get(struct keyed_table *t, const struct measure *m, struct pair **ret)
{
	uint64_t texts = hash_text(hash_text(0, m->what), m->where);

	*ret = keyed_get(t, hash_mix(m->kind, (uint64_t)(int64_t)m->rank), texts, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

static int pair_all(struct comparison *c, struct keyed_table *t, const struct measures *a, const struct measures *b)
{
	struct pair *p;
	int err = 0;

	for (size_t i = 0; !err && i < a->n; i++) {
		err = pair_get(t, &a->v[i], &p);
		if (!err) {
			p->d = &c->v[c->n++];
			p->d->a = &a->v[i];
		}
	}
	for (size_t i = 0; !err && i < b->n; i++) {
		err = pair_get(t, &b->v[i], &p);
		if (err)
			break;
		if (!p->d)
			p->d = &c->v[c->n++];
		p->d->b = &b->v[i];
	}
	return err;
}

/* Of ranks that both have: others would shift it. */
static double step_of(const struct comparison *c, bool of_b, double *steps)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++) {
		const struct difference *d = &c->v[i];

		if (d->a && d->b && d->a->kind == MEASURE_STEP && d->a->s.n && d->b->s.n)
			steps[n++] = durations_median(of_b ? &d->b->s : &d->a->s);
	}
	return doubles_median(steps, n);
}

static void judge_all(struct comparison *c, double share, double *steps, double *room)
{
	c->a_step_s = step_of(c, false, steps);
	c->b_step_s = step_of(c, true, steps);
	for (size_t i = 0; i < c->n; i++) {
		difference_judge(&c->v[i], share, c->a_step_s, room);
		counted(c, c->v[i].verdict);
	}
}

int comparison_make(const struct measures *a, const struct measures *b, double share, struct comparison *ret)
{
	struct keyed_table pairs = { 0 };
	double *room = malloc(DURATIONS_KEPT * sizeof(*room)), *steps = calloc(a->n + b->n + 1, sizeof(*steps));
	int err = -ENOMEM;

	*ret = (struct comparison){ .v = calloc(a->n + b->n + 1, sizeof(*ret->v)) };
	if (room && steps && ret->v)
		err = pair_all(ret, &pairs, a, b);
	if (!err)
		judge_all(ret, share, steps, room);
	else
		comparison_free(ret);
	keyed_free(&pairs);
	free(room);
	free(steps);
	return err;
}

void comparison_free(struct comparison *c)
{
	free(c->v);
	*c = (struct comparison){ 0 };
}

const char *verdict_name(enum verdict v)
{
	switch (v) {
	case COMPARE_SAME: return "no_difference";
	case COMPARE_SLOWER: return "slower";
	case COMPARE_FASTER: return "faster";
	case COMPARE_TOO_FEW: return "too_few";
	case COMPARE_ONLY_A: return "only_a";
	case COMPARE_ONLY_B: return "only_b";
	default: return "?";
	}
}
