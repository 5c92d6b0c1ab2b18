/* SPDX-License-Identifier: Apache-2.0
 *
 * steps_table.c - see steps_table.h.
 */
#include "compare/steps_table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"

#define MARK_OF_OTHERS 0.10
#define MARK_OF_STEP 0.01
#define MARK_DEVIATIONS 6.0 /* of the others' median absolute deviation: 4 standard deviations */

static const struct column {
	const char *name; /* of a measure */
	bool phase, wait;
} columns[STEPS_COLUMNS] = {
	{ "step", false, false },    { "data_wait", true, false }, { "forward", true, false },
	{ "backward", true, false }, { "optimizer", true, false }, { "gc", true, false },
	{ "other", true, false },    { "gpu_wait", true, true },   { "exposed_most", true, true },
	{ "late", false, false },
};

const char *steps_column_name(int column)
{
	return columns[column].name;
}

bool steps_column_is_phase(int column)
{
	return columns[column].phase;
}

static int column_of(const struct measure *m)
{
	for (int i = 0; i < STEPS_COLUMNS; i++)
		if (m->rank >= 0 && !strcmp(m->what, columns[i].name))
			return i;
	return -1;
}

static void row_empty(struct steps_row *r)
{
	r->n_steps = 0;
	for (int i = 0; i < STEPS_COLUMNS; i++)
		r->median_s[i] = -1;
}

static struct steps_row *row_of(struct steps_table *t, int rank)
{
	size_t at = 0, cap = t->cap ? 2 * t->cap : 16;
	struct steps_row *rows;

	while (at < t->n && t->rows[at].rank < rank)
		at++;
	if (at < t->n && t->rows[at].rank == rank)
		return &t->rows[at];
	if (t->n == t->cap) {
		rows = realloc(t->rows, cap * sizeof(*rows));
		if (!rows)
			return NULL;
		t->rows = rows;
		t->cap = cap;
	}
	memmove(t->rows + at + 1, t->rows + at, (t->n++ - at) * sizeof(*t->rows));
	t->rows[at] = (struct steps_row){ .rank = rank };
	row_empty(&t->rows[at]);
	return &t->rows[at];
}

/* How much more than the other ranks' median is more than these differ: -1 where no other has this column. */
static double others_limit(const struct steps_table *t, int column, size_t but, double *room)
{
	size_t n = 0;
	double median;

	for (size_t i = 0; i < t->n; i++)
		if (i != but && t->rows[i].median_s[column] >= 0)
			room[n++] = t->rows[i].median_s[column];
	if (!n)
		return -1;
	median = doubles_median(room, n);
	for (size_t i = 0; i < n; i++)
		room[i] = fabs(room[i] - median);
	return median + fmax(MARK_OF_OTHERS * median, MARK_DEVIATIONS * doubles_median(room, n));
}

static int slowest_of(const struct steps_table *t, int column, double *room)
{
	const struct steps_row *r;
	size_t most = 0;
	double limit;

	for (size_t i = 1; i < t->n; i++)
		if (t->rows[i].median_s[column] > t->rows[most].median_s[column])
			most = i;
	r = &t->rows[most];
	limit = others_limit(t, column, most, room);
	if (columns[column].wait || limit < 0 || r->median_s[column] <= limit + MARK_OF_STEP * r->median_s[0])
		return STEPS_NO_MARK;
	return (int)most;
}

static int marks_set(struct steps_table *t)
{
	double *room = calloc(t->n + 1, sizeof(*room));

	for (int i = 0; room && i < STEPS_COLUMNS; i++)
		t->slowest[i] = t->n ? slowest_of(t, i, room) : STEPS_NO_MARK;
	free(room);
	return room ? 0 : -ENOMEM;
}

int steps_table_set(struct steps_table *t, const struct measures *m)
{
	struct steps_row *r;

	for (size_t i = 0; i < t->n; i++)
		row_empty(&t->rows[i]);
	for (size_t i = 0; i < m->n; i++) {
		int column = column_of(&m->v[i]);

		if (column < 0 || !m->v[i].s.n)
			continue;
		r = row_of(t, m->v[i].rank);
		if (!r)
			return -ENOMEM;
		r->median_s[column] = durations_median(&m->v[i].s);
		r->n_steps = column ? r->n_steps : m->v[i].s.seen;
		t->phases |= columns[column].phase;
	}
	return marks_set(t);
}

void steps_table_free(struct steps_table *t)
{
	free(t->rows);
	*t = (struct steps_table){ 0 };
}
