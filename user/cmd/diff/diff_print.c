/* SPDX-License-Identifier: Apache-2.0
 *
 * diff_print.c - see diff_print.h.
 */
#include "cmd/diff/diff_print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/utf8.h"

#define ROWS_MAX 20 /* of one verdict, those that cost a step most first */
#define RANKS_TEXT 64
#define PERCENT_UP_TO 10 /* times as long: beyond that the two numbers say more */

/* --- for people --- */

/* One line: a communicator's operation; or one thing of all ranks of which it changed the same way. */
struct row {
	const struct difference *worst;
	enum verdict verdict;
	int *ranks; /* of struct rows */
	size_t n;
};

struct rows {
	struct row *v;
	size_t n;
	int *ranks; /* of all rows, one behind the other */
};

static const struct measure *measure_of(const struct difference *d)
{
	return d->a ? d->a : d->b;
}

static bool is_alike(const struct measure *a, const struct measure *b)
{
	return a->kind == b->kind && a->rank >= 0 && b->rank >= 0 && !strcmp(a->what, b->what);
}

static void row_add(struct row *r, const struct difference *d)
{
	r->ranks[r->n++] = measure_of(d)->rank;
	if (!r->worst || fabs(d->b_s - d->a_s) > fabs(r->worst->b_s - r->worst->a_s))
		r->worst = d;
}

/* Phases and the like as they come, of operations the one first that costs a step most. */
static int row_cmp(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	const struct measure *mx = measure_of(x->worst), *my = measure_of(y->worst);
	double cx = fabs(x->worst->step_s), cy = fabs(y->worst->step_s);

	if (mx->kind != my->kind)
		return mx->kind < my->kind ? -1 : 1;
	if (cx > cy || cx < cy)
		return cx > cy ? -1 : 1;
	return x->worst < y->worst ? -1 : 1;
}

/* False: no memory. */
static bool rows_make(const struct comparison *c, enum verdict v, struct rows *ret)
{
	int *at = calloc(c->n + 1, sizeof(*at));

	*ret = (struct rows){ .v = calloc(c->n + 1, sizeof(*ret->v)), .ranks = at };
	for (size_t i = 0; at && ret->v && i < c->n; i++) {
		struct row *last = ret->n ? &ret->v[ret->n - 1] : NULL;

		if (c->v[i].verdict != v)
			continue;
		if (!last || !is_alike(measure_of(last->worst), measure_of(&c->v[i]))) {
			last = &ret->v[ret->n++];
			*last = (struct row){ .ranks = at, .verdict = v };
		}
		row_add(last, &c->v[i]);
		at++;
	}
	if (ret->v)
		qsort(ret->v, ret->n, sizeof(*ret->v), row_cmp);
	return at && ret->v;
}

static void rows_free(struct rows *r)
{
	free(r->v);
	free(r->ranks);
}

static const char *span_text(char to[32], double s)
{
	if (s >= 1)
		snprintf(to, 32, "%.2f s", s);
	else
		snprintf(to, 32, "%.3g ms", s * 1e3);
	return to;
}

static const char *what_text(const struct measure *m)
{
	return !strcmp(m->what, "gpu_wait")       ? "wait for the GPU"
	       : !strcmp(m->what, "exposed_most") ? "exposed communication"
	       : m->kind == MEASURE_LATE          ? "late at collectives"
						  : m->what;
}

static const char *verdict_text(enum verdict v)
{
	return v == COMPARE_SLOWER ? "slower" : v == COMPARE_FASTER ? "faster" : v == COMPARE_SAME ? "same" : "too few";
}

static bool is_change(enum verdict v)
{
	return v == COMPARE_SLOWER || v == COMPARE_FASTER;
}

static void row_print(const struct row *r)
{
	const struct difference *d = r->worst;
	const struct measure *m = measure_of(d);
	char where[RANKS_TEXT], a[32], b[32], noise[32];

	if (m->rank >= 0)
		ranks_text(r->ranks, r->n, where, sizeof(where));
	printf("%-8s%-22s %-16s %s -> %s", verdict_text(r->verdict), what_text(m), m->rank >= 0 ? where : m->where,
	       span_text(a, d->a_s), span_text(b, d->b_s));
	if (d->a_s > 0 && d->b_s < PERCENT_UP_TO * d->a_s)
		printf(" (%+.0f %%)", 100 * (d->b_s / d->a_s - 1));
	if (r->n > 1 && is_change(r->verdict))
		printf(", most at rank %d", m->rank);
	printf("; %zu and %zu values", d->a ? d->a->s.n : 0, d->b ? d->b->s.n : 0);
	if (d->noise_s > 0)
		printf(", noise %s", span_text(noise, d->noise_s));
	putchar('\n');
}

static void verdict_print(const struct comparison *c, enum verdict v, size_t rows_max)
{
	struct rows rows;

	if (rows_make(c, v, &rows)) {
		for (size_t i = 0; i < rows.n && i < rows_max; i++)
			row_print(&rows.v[i]);
		if (rows.n > rows_max)
			printf("%s, too: %zu more; -v or --json shows all\n", verdict_text(v), rows.n - rows_max);
	}
	rows_free(&rows);
}

static void only_print(const struct comparison *c, enum verdict v, const char *name, size_t rows_max)
{
	char ranks[RANKS_TEXT];
	struct rows rows;
	bool made = rows_make(c, v, &rows);

	for (size_t i = 0; made && i < rows.n && i < rows_max; i++) {
		const struct measure *m = measure_of(rows.v[i].worst);

		if (m->rank >= 0)
			ranks_text(rows.v[i].ranks, rows.v[i].n, ranks, sizeof(ranks));
		printf("only in %s: %s, %s\n", name, what_text(m), m->rank >= 0 ? ranks : m->where);
	}
	if (made && rows.n > rows_max)
		printf("only in %s: %zu more; -v or --json shows all\n", name, rows.n - rows_max);
	rows_free(&rows);
}

static void whole_print(const struct comparison *c)
{
	char a[32], b[32];

	if (!c->n_slower && !c->n_faster)
		printf("no difference beyond noise: ");
	printf("%zu medians compared, %zu slower, %zu faster", c->n_compared, c->n_slower, c->n_faster);
	if (c->n_too_few)
		printf(", %zu of fewer than %d values not judged", c->n_too_few, COMPARE_VALUES_MIN);
	if (c->a_step_s > 0 && c->b_step_s > 0)
		printf("; step %s -> %s", span_text(a, c->a_step_s), span_text(b, c->b_step_s));
	putchar('\n');
}

void diff_print_text(const struct comparison *c, const char *const names[2], bool all)
{
	size_t rows_max = all ? c->n : ROWS_MAX;

	verdict_print(c, COMPARE_SLOWER, rows_max);
	verdict_print(c, COMPARE_FASTER, rows_max);
	if (all) {
		verdict_print(c, COMPARE_SAME, rows_max);
		verdict_print(c, COMPARE_TOO_FEW, rows_max);
	}
	only_print(c, COMPARE_ONLY_A, names[0], rows_max);
	only_print(c, COMPARE_ONLY_B, names[1], rows_max);
	whole_print(c);
}

/* --- JSON --- */

static void json_print(cJSON *o)
{
	char *line = o ? cJSON_PrintUnformatted(o) : NULL;

	if (line)
		puts(line);
	free(line);
	cJSON_Delete(o);
}

static void side_add(cJSON *o, const char *name, const struct measure *m, double median_s)
{
	cJSON *side = m ? cJSON_AddObjectToObject(o, name) : cJSON_AddNullToObject(o, name);

	if (!m)
		return;
	cJSON_AddNumberToObject(side, "median_s", median_s);
	cJSON_AddNumberToObject(side, "values", (double)m->s.n);
}

static void difference_print(const struct difference *d)
{
	const struct measure *m = measure_of(d);
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "verdict", verdict_name(d->verdict));
	cJSON_AddStringToObject(o, "kind", measure_kind_name(m->kind));
	cJSON_AddStringToObject(o, "what", m->what);
	if (m->rank >= 0)
		cJSON_AddNumberToObject(o, "rank", m->rank);
	else
		cJSON_AddStringToObject(o, "where", m->where);
	side_add(o, "a", d->a, d->a_s);
	side_add(o, "b", d->b, d->b_s);
	if (d->noise_s > 0)
		cJSON_AddNumberToObject(o, "noise_s", d->noise_s);
	json_print(o);
}

void diff_print_json(const struct comparison *c, const char *const names[2])
{
	cJSON *o = cJSON_CreateObject();
	char *clean;

	for (size_t i = 0; i < c->n; i++)
		difference_print(&c->v[i]);
	cJSON_AddStringToObject(o, "verdict",
				verdict_name(c->n_slower   ? COMPARE_SLOWER
					     : c->n_faster ? COMPARE_FASTER
							   : COMPARE_SAME));
	cJSON_AddStringToObject(o, "kind", "whole");
	for (int i = 0; i < 2; i++) {
		clean = utf8_dup(names[i]);
		cJSON_AddStringToObject(o, i ? "b" : "a", clean ? clean : "");
		free(clean);
	}
	cJSON_AddNumberToObject(o, "compared", (double)c->n_compared);
	cJSON_AddNumberToObject(o, "slower", (double)c->n_slower);
	cJSON_AddNumberToObject(o, "faster", (double)c->n_faster);
	cJSON_AddNumberToObject(o, "too_few", (double)c->n_too_few);
	json_print(o);
}
