/* SPDX-License-Identifier: Apache-2.0
 *
 * order.c - see order.h.
 */
#include "top/order.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/larger.h"

const char *top_sort_name(enum top_sort s)
{
	static const char *const names[] = {
#define X(id, name) name,
		TOP_SORTS(X)
#undef X
	};

	return names[s];
}

const char *top_grouping_name(enum top_grouping g)
{
	static const char *const names[] = {
#define X(id, name) name,
		TOP_GROUPINGS(X)
#undef X
	};

	return names[g];
}

/* --- which --- */

static bool is_number(const char *text)
{
	return *text && strspn(text, "0123456789") == strlen(text);
}

static bool is_chosen(const struct top_row *r, const struct top_choice *c)
{
	char op[64];

	if ((c->job && strcmp(c->job, r->job)) || (c->host && strcmp(c->host, r->host)))
		return false;
	if (!*c->filter)
		return true;
	if (is_number(c->filter))
		return r->rank == atoi(c->filter);
	top_row_op(r, op, sizeof(op));
	return strcasestr(r->job, c->filter) || strcasestr(r->host, c->filter) || strcasestr(op, c->filter) ||
	       strcasestr(top_state_name(r->state), c->filter) ||
	       (r->worst && strcasestr(finding_kind_shown(&r->worst->f), c->filter));
}

/* --- in which order --- */

static int order_numbers(double a, double b)
{
	return a < b ? -1 : a > b;
}

static int severity_of(const struct top_row *r)
{
	return r->worst ? (int)r->worst->f.severity : -1;
}

static int order_ranks(const struct top_row *a, const struct top_row *b)
{
	int by_job = strcmp(a->job, b->job), by_rank = order_numbers(a->rank, b->rank);

	return by_job ? by_job : by_rank ? by_rank : order_numbers((double)a->proc->key, (double)b->proc->key);
}

/* Of states only the worse half: others come and go with each operation, and rows that change their places cannot be
 * read. */
static int order_trouble(const struct top_row *a, const struct top_row *b)
{
	int by_finding = severity_of(b) - severity_of(a);
	int by_state = (a->state <= TOP_LATE ? (int)a->state : TOP_STATE_MAX) -
		       (b->state <= TOP_LATE ? (int)b->state : TOP_STATE_MAX);

	return by_finding ? by_finding : by_state;
}

static int order_values(const struct top_row *a, const struct top_row *b, enum top_sort by)
{
	switch (by) {
	case TOP_BY_TROUBLE: return order_trouble(a, b);
	case TOP_BY_LAG: return order_numbers((double)b->lag, (double)a->lag);
	case TOP_BY_WAIT: return order_numbers((double)b->wait_ns, (double)a->wait_ns);
	case TOP_BY_STEP: return order_numbers(b->step_s, a->step_s);
	case TOP_BY_CPU: return order_numbers(b->cpu, a->cpu);
	case TOP_BY_GPU: return order_numbers(b->activity.sm, a->activity.sm);
	default: return 0;
	}
}

static int row_compare(const void *a, const void *b, void *of)
{
	const struct top_row *x = *(struct top_row *const *)a, *y = *(struct top_row *const *)b;
	const struct top_choice *c = of;
	int by_value = order_values(x, y, c->sort), order = by_value ? by_value : order_ranks(x, y);

	return c->reversed ? -order : order;
}

size_t top_choose(struct top_table *t, const struct top_choice *c)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		if (is_chosen(t->order[i], c)) {
			struct top_row *r = t->order[i];

			t->order[i] = t->order[n];
			t->order[n++] = r;
		}
	qsort_r(t->order, n, sizeof(struct top_row *), row_compare, (void *)c);
	return n;
}

/* --- groups --- */

static const char *group_name(const struct top_row *r, enum top_grouping by)
{
	return by == TOP_OF_JOB ? r->job : r->host;
}

static int name_compare(const void *a, const void *b, void *of)
{
	const struct top_row *x = *(const struct top_row *const *)a, *y = *(const struct top_row *const *)b;
	enum top_grouping by = *(const enum top_grouping *)of;
	int order = strcmp(group_name(x, by), group_name(y, by));

	return order ? order : order_ranks(x, y);
}

static void row_sum(struct top_group *g, const struct top_row *r)
{
	g->n++;
	g->n_bad += top_row_is_bad(r);
	g->n_state[r->state]++;
	g->n_findings += r->n_findings;
	g->lag = larger(g->lag, r->lag);
	g->wait_ns = larger(g->wait_ns, r->wait_ns);
	g->step_s = r->step_s > g->step_s ? r->step_s : g->step_s;
	if (r->worst && (!g->worst || r->worst->f.severity > g->worst->f.severity))
		g->worst = r->worst;
}

static int group_compare(const void *a, const void *b)
{
	const struct top_group *x = a, *y = b;
	int x_grave = x->worst ? (int)x->worst->f.severity : -1, y_grave = y->worst ? (int)y->worst->f.severity : -1;

	if (x_grave != y_grave)
		return y_grave - x_grave;
	return x->n_bad != y->n_bad ? order_numbers(y->n_bad, x->n_bad) : strcmp(x->name, y->name);
}

struct top_group *top_groups(const struct top_table *t, size_t n, enum top_grouping by, size_t *ret_n)
{
	const struct top_row **rows = malloc((n + 1) * sizeof(*rows));
	struct top_group *all = calloc(n + 1, sizeof(*all));
	size_t n_groups = 0;

	*ret_n = 0;
	if (!rows || !all || !n) {
		free(rows);
		free(all);
		return NULL;
	}
	memcpy(rows, t->order, n * sizeof(*rows));
	qsort_r(rows, n, sizeof(*rows), name_compare, &by);
	for (size_t i = 0; i < n; i++) {
		const char *name = group_name(rows[i], by);

		if (!n_groups || strcmp(all[n_groups - 1].name, name))
			all[n_groups++] = (struct top_group){ .name = name, .first = rows[i] };
		row_sum(&all[n_groups - 1], rows[i]);
	}
	free(rows);
	qsort(all, n_groups, sizeof(*all), group_compare);
	*ret_n = n_groups;
	return all;
}
