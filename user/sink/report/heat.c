/* SPDX-License-Identifier: Apache-2.0
 *
 * heat.c - see heat.h. A young clock may take the layers of a step for steps: what it showed goes when it is replaced
 * early. Steps before a clock was found are taken from what the model still keeps.
 */
#include "sink/report/heat.h"

#include <stdlib.h>
#include <string.h>

#define ROW_STEPS_MAX 8192
#define ROW_STEPS_MIN 256
#define STEPS_ALL_MAX 16777216 /* of all rows: 256 MiB */
#define POINTS_MAX 4096

static struct heat_row *row_new(struct heat *h, const struct heat_key *key, const struct member *mb)
{
	struct heat_row *row = calloc(1, sizeof(*row));

	if (!row)
		return NULL;
	row->key = *key;
	row->pid = mb->proc->tgid;
	row->gpu = member_gpu(mb);
	row->host = strdup(mb->proc->node->name);
	if (row->host)
		HASH_ADD(hh, h->rows, key, sizeof(row->key), row);
	if (!row->hh.tbl) {
		free(row->host);
		free(row);
		return NULL;
	}
	h->n_rows++;
	return row;
}

struct heat_row *heat_row(struct heat *h, const struct member *mb)
{
	struct heat_key key;
	struct heat_row *row;

	memset(&key, 0, sizeof(key));
	key = (struct heat_key){ mb->proc->leader ? mb->proc->leader->key : mb->proc->key, member_rank(mb) };
	HASH_FIND(hh, h->rows, &key, sizeof(key), row);
	if (!row)
		row = row_new(h, &key, mb);
	if (row) /* a job may get its name late */
		row->job = mb->proc->job->shown;
	return row;
}

/* --- steps --- */

static size_t row_max(const struct heat *h)
{
	size_t fair = h->n_rows ? STEPS_ALL_MAX / h->n_rows : ROW_STEPS_MAX;

	return fair > ROW_STEPS_MAX ? ROW_STEPS_MAX : fair < ROW_STEPS_MIN ? ROW_STEPS_MIN : fair;
}

static float worse(float a, float b)
{
	return a < 0 || b < 0 ? -1 : a > b ? a : b;
}

static void row_fold(struct heat_row *row)
{
	size_t n = 0;

	for (size_t i = 0; i < row->n; i += 2) {
		const struct heat_step *a = &row->steps[i], *b = i + 1 < row->n ? a + 1 : a;

		row->steps[n++] = (struct heat_step){ a->begin_ns, worse(a->s, b->s), worse(a->late_s, b->late_s) };
	}
	row->in_last = row->n % 2 ? row->in_last : (1u << row->fold) + row->in_last;
	row->n = n;
	row->clock_from = (row->clock_from + 1) / 2;
	row->fold++;
}

static bool row_room(const struct heat *h, struct heat_row *row)
{
	size_t max = row_max(h), cap = row->cap ? 2 * row->cap : 64;
	struct heat_step *grown;

	while (row->n >= max)
		row_fold(row);
	if (row->n < row->cap)
		return true;
	grown = realloc(row->steps, cap * sizeof(*grown));
	if (!grown)
		return false;
	row->steps = grown;
	row->cap = cap;
	return true;
}

static void step_begin(struct heat *h, struct heat_row *row, uint64_t nth, uint64_t ns)
{
	bool follows = row->n > row->clock_from && nth == row->last_nth + row->period_ops;
	struct heat_step *last = follows ? &row->steps[row->n - 1] : NULL;

	if (row->n > row->clock_from && nth <= row->last_nth)
		return;
	if (last && ns > row->last_ns)
		last->s = worse(last->s, (float)((ns - row->last_ns) * 1e-9));
	row->last_nth = nth;
	row->last_ns = ns;
	row->n_steps++;
	if (last && row->in_last < 1u << row->fold) {
		row->in_last++;
		return;
	}
	if (!row_room(h, row))
		return;
	row->steps[row->n++] = (struct heat_step){ .begin_ns = ns };
	row->in_last = 1;
}

/* What was called before the clock was found, as far back as it repeats. */
static void steps_before(struct heat *h, struct heat_row *row, const struct op *op, const struct steps *s)
{
	const struct op *at[256];
	size_t n = 0;
	uint64_t from_ns = row->n ? row->last_ns : 0;

	for (op = op_before(op); op && op->call_ns > from_ns && n < 256; op = op_before(op))
		if (op_clock_nth(op) % s->period_ops == s->phase)
			at[n++] = op;
	while (n--)
		step_begin(h, row, op_clock_nth(at[n]), at[n]->call_ns);
}

static void points_move(struct heat_row *row)
{
	size_t n = row->n_points;

	row->n_points = 0;
	for (size_t i = 0; i < n; i++)
		heat_late(row, row->points[i].ns, row->points[i].late_s);
}

static void clock_begin(struct heat *h, struct heat_row *row, const struct op *op, const struct steps *s)
{
	if (row->n - row->clock_from < HEAT_STEPS_MIN)
		row->n = row->clock_from;
	row->clock_from = row->n;
	row->period_ops = s->period_ops;
	row->last_ns = row->n ? row->last_ns : 0;
	steps_before(h, row, op, s);
}

void heat_op(struct heat *h, struct heat_row *row, const struct op *op)
{
	const struct proc *p = op->member->proc;
	const struct steps *s = member_steps(op->member);
	bool fresh, one_clock = p->shared && !p->by_threads; /* of several rows */

	if (!s->period_ops || p->leader != p || one_clock || op_clock_nth(op) % s->period_ops != s->phase)
		return;
	fresh = row->period_ops != s->period_ops;
	if (fresh)
		clock_begin(h, row, op, s);
	step_begin(h, row, op_clock_nth(op), op->call_ns);
	if (fresh)
		points_move(row);
}

/* --- lateness --- */

static void point_add(struct heat_row *row, uint64_t ns, float late_s)
{
	size_t n = 0;

	if (!row->points)
		row->points = calloc(POINTS_MAX, sizeof(*row->points));
	if (!row->points)
		return;
	if (row->n_points == POINTS_MAX) {
		for (size_t i = 0; i < POINTS_MAX; i += 2)
			row->points[n++] = row->points[row->points[i].late_s < row->points[i + 1].late_s ? i + 1 : i];
		row->n_points = n;
	}
	row->points[row->n_points++] = (struct heat_point){ ns, late_s };
}

void heat_late(struct heat_row *row, uint64_t ns, double late_s)
{
	size_t i = row->n;

	while (i && row->steps[i - 1].begin_ns > ns)
		i--;
	if (i)
		row->steps[i - 1].late_s = worse(row->steps[i - 1].late_s, (float)late_s);
	else
		point_add(row, ns, (float)late_s);
}

void heat_free(struct heat *h)
{
	struct heat_row *row, *next;

	HASH_ITER (hh, h->rows, row, next) {
		HASH_DEL(h->rows, row);
		free(row->host);
		free(row->steps);
		free(row->points);
		free(row);
	}
}
