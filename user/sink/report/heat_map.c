/* SPDX-License-Identifier: Apache-2.0
 *
 * heat_map.c - see heat_map.h. Read map_object() first. How finely values are distinguished is what size allows:
 * levels an octave are halved, then columns are joined in pairs, until the text is short enough.
 */
#include "sink/report/heat_map.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/sorted.h"
#include "base/utf8.h"
#include "sink/report/pack.h"

#define SLICES_MAX 400
#define LATE_FLOOR_S 1e-5 /* and 1 / LATE_FLOOR_PART of the median step: what is less does not matter */
#define LATE_FLOOR_PART 200
#define LATE_LEVELS 8 /* an octave, at first */
#define STEP_LEVELS 32
#define STEP_MIDDLE 128
#define COARSER_LEVELS 3 /* times that levels are halved */
#define COARSER_MAX 12

struct map { /* of one job */
	struct heat_row **rows;
	size_t n_rows, n_cols;
	double *begin_s; /* of the columns */
	bool by_time;
	double median_s, floor_s;
	float *late, *step; /* [row * n_cols + col]; 0 not known, late < 0: never entered */
};

/* --- rows and columns --- */

static int by_rank(const void *a, const void *b)
{
	const struct heat_row *x = *(struct heat_row *const *)a, *y = *(struct heat_row *const *)b;
	int d = strcmp(x->job, y->job);

	if (d)
		return d;
	if (x->key.rank != y->key.rank)
		return x->key.rank < y->key.rank ? -1 : 1;
	return x->key.proc < y->key.proc ? -1 : x->key.proc > y->key.proc;
}

static const struct heat_row *longest(const struct map *m)
{
	const struct heat_row *best = m->rows[0];

	for (size_t i = 1; i < m->n_rows; i++)
		if (m->rows[i]->n > best->n)
			best = m->rows[i];
	return best;
}

/* A clock on a few ranks alone is a chance pattern of a short trace: most have to have one. */
static bool has_steps(const struct map *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_rows; i++)
		n += m->rows[i]->n >= HEAT_STEPS_MIN;
	return 2 * n >= m->n_rows;
}

static double median_step(const struct map *m)
{
	double *all;
	size_t n = 0, cap = 0;
	double median = 0;

	for (size_t i = 0; i < m->n_rows; i++)
		cap += m->rows[i]->n;
	all = calloc(cap + 1, sizeof(*all));
	for (size_t i = 0; all && i < m->n_rows; i++)
		for (size_t k = 0; k < m->rows[i]->n; k++)
			if (m->rows[i]->steps[k].s > 0)
				all[n++] = m->rows[i]->steps[k].s;
	if (n)
		median = doubles_nth(all, n, n / 2);
	free(all);
	return median;
}

static int columns_of_steps(struct map *m, const struct heat_row *ref, uint64_t base_ns)
{
	m->n_cols = ref->n;
	m->begin_s = calloc(m->n_cols, sizeof(*m->begin_s));
	for (size_t i = 0; m->begin_s && i < m->n_cols; i++)
		m->begin_s[i] = ((double)ref->steps[i].begin_ns - (double)base_ns) * 1e-9;
	return m->begin_s ? 0 : -1;
}

static void widen(uint64_t *from, uint64_t *to, uint64_t ns)
{
	*from = ns < *from ? ns : *from;
	*to = ns > *to ? ns : *to;
}

static int columns_of_time(struct map *m, uint64_t base_ns, uint64_t end_ns)
{
	uint64_t from = UINT64_MAX, to = 0;
	size_t most = 1;

	for (size_t i = 0; i < m->n_rows; i++) {
		const struct heat_row *r = m->rows[i];

		most = r->n_points + r->n > most ? r->n_points + r->n : most;
		for (size_t k = 0; k < r->n_points; k++)
			widen(&from, &to, r->points[k].ns);
		for (size_t k = 0; k < r->n; k++)
			widen(&from, &to, r->steps[k].begin_ns);
		to = r->missing_s > 0 ? end_ns : to;
	}
	if (from >= to)
		return 0;
	m->by_time = true;
	m->n_cols = most < SLICES_MAX ? most : SLICES_MAX;
	m->begin_s = calloc(m->n_cols, sizeof(*m->begin_s));
	for (size_t i = 0; m->begin_s && i < m->n_cols; i++)
		m->begin_s[i] = ((double)from - (double)base_ns + (double)(to - from) * i / m->n_cols) * 1e-9;
	return m->begin_s ? 0 : -1;
}

/* The column that holds t; of steps the one whose begin is nearest. */
static size_t column_of(const struct map *m, double t)
{
	size_t lo = 0, hi = m->n_cols;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (m->begin_s[mid] <= t)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (m->by_time || !lo || lo == m->n_cols)
		return lo ? lo - 1 : 0;
	return t - m->begin_s[lo - 1] <= m->begin_s[lo] - t ? lo - 1 : lo;
}

static bool is_outside(const struct map *m, double t)
{
	double far = m->median_s > 0 ? m->median_s : 1;

	return t < m->begin_s[0] - far || t > m->begin_s[m->n_cols - 1] + far;
}

static float worse(float a, float b)
{
	return a < 0 || b < 0 ? -1 : a > b ? a : b;
}

static void late_put(struct map *m, float *late, uint64_t ns, uint64_t base_ns, float s)
{
	size_t c = column_of(m, ((double)ns - (double)base_ns) * 1e-9);

	late[c] = worse(late[c], s > 0 ? s : 1e-9f); /* it came, and was the first */
}

/* It lacks what others wait in: of steps the last one, of time slices all since the first of them came. */
static void missing_fill(const struct map *m, float *late, double missing_s, double end_s)
{
	size_t from = m->by_time ? column_of(m, end_s - missing_s) : m->n_cols - 1;

	for (size_t c = from; c < m->n_cols; c++)
		late[c] = -1;
}

static void row_fill(struct map *m, size_t i, uint64_t base_ns, uint64_t end_ns)
{
	const struct heat_row *r = m->rows[i];
	float *late = m->late + i * m->n_cols, *step = m->step + i * m->n_cols;

	for (size_t k = 0; k < r->n; k++) {
		double t = ((double)r->steps[k].begin_ns - (double)base_ns) * 1e-9;

		if (is_outside(m, t))
			continue;
		late_put(m, late, r->steps[k].begin_ns, base_ns, r->steps[k].late_s);
		if (!m->by_time)
			step[column_of(m, t)] = worse(step[column_of(m, t)], r->steps[k].s);
	}
	for (size_t k = 0; m->by_time && k < r->n_points; k++)
		late_put(m, late, r->points[k].ns, base_ns, r->points[k].late_s);
	if (r->missing_s > 0)
		missing_fill(m, late, r->missing_s, ((double)end_ns - (double)base_ns) * 1e-9);
}

static int map_fill(struct map *m, uint64_t base_ns, uint64_t end_ns)
{
	const struct heat_row *ref = longest(m);
	int err;

	m->median_s = has_steps(m) ? median_step(m) : 0;
	m->floor_s = fmax(LATE_FLOOR_S, m->median_s / LATE_FLOOR_PART);
	err = has_steps(m) ? columns_of_steps(m, ref, base_ns) : columns_of_time(m, base_ns, end_ns);
	if (err || !m->n_cols)
		return err;
	m->late = calloc(m->n_rows * m->n_cols, sizeof(*m->late));
	m->step = calloc(m->n_rows * m->n_cols, sizeof(*m->step));
	for (size_t i = 0; m->late && m->step && i < m->n_rows; i++)
		row_fill(m, i, base_ns, end_ns);
	return m->late && m->step ? 0 : -1;
}

static void map_free(struct map *m)
{
	free(m->begin_s);
	free(m->late);
	free(m->step);
}

/* --- bytes --- */

static uint8_t late_byte(float s, double floor_s, int levels)
{
	double v;

	if (s <= 0)
		return s < 0 ? HEAT_NEVER : 0;
	v = s <= floor_s ? 1 : 1 + round(log2(s / floor_s) * levels);
	return (uint8_t)(v > HEAT_NEVER - 1 ? HEAT_NEVER - 1 : v);
}

static uint8_t step_byte(float s, double median_s, int levels)
{
	double v;

	if (s <= 0 || median_s <= 0)
		return 0;
	v = STEP_MIDDLE + round(log2(s / median_s) * levels);
	return (uint8_t)(v < 1 ? 1 : v > 254 ? 254 : v);
}

/* Of the cells of `joined` columns the worst. */
static float cell_worst(const struct map *m, const float *of, size_t row, size_t col, size_t joined)
{
	float v = 0;

	for (size_t c = col * joined; c < (col + 1) * joined && c < m->n_cols; c++)
		v = worse(v, of[row * m->n_cols + c]);
	return v;
}

/* Column by column: in a slow step all ranks are slow, and what is alike stands together. */
static char *map_pack(const struct map *m, bool late, int levels, size_t joined)
{
	size_t n_cols = (m->n_cols + joined - 1) / joined;
	uint8_t *bytes = malloc(m->n_rows * n_cols), *at = bytes;
	char *text;

	if (!bytes)
		return NULL;
	for (size_t c = 0; c < n_cols; c++)
		for (size_t i = 0; i < m->n_rows; i++) {
			float v = cell_worst(m, late ? m->late : m->step, i, c, joined);

			*at++ = late ? late_byte(v, m->floor_s, levels) : step_byte(v, m->median_s, levels);
		}
	text = pack_bytes(bytes, m->n_rows * n_cols);
	free(bytes);
	return text;
}

/* --- JSON --- */

static void add_column_begins(cJSON *o, const struct map *m, size_t joined)
{
	cJSON *list = cJSON_AddArrayToObject(o, "begin_s");

	for (size_t c = 0; c < m->n_cols; c += joined)
		cJSON_AddItemToArray(list, cJSON_CreateNumber(round(m->begin_s[c] * 1e4) / 1e4));
}

/* Of each row: [rank, pid, GPU, number of its host]; the hosts by name. */
static void add_rows(cJSON *o, const struct map *m)
{
	cJSON *rows = cJSON_AddArrayToObject(o, "rows"), *hosts = cJSON_AddArrayToObject(o, "hosts");
	const char *last = NULL;
	int n_hosts = 0;

	for (size_t i = 0; i < m->n_rows; i++) {
		const struct heat_row *r = m->rows[i];
		int v[4];

		if (!last || strcmp(last, r->host)) {
			char *clean = utf8_dup(r->host);

			cJSON_AddItemToArray(hosts, cJSON_CreateString(clean ? clean : ""));
			free(clean);
			n_hosts++;
			last = r->host;
		}
		v[0] = (int)r->key.rank;
		v[1] = (int)r->pid;
		v[2] = r->gpu;
		v[3] = n_hosts - 1;
		cJSON_AddItemToArray(rows, cJSON_CreateIntArray(v, 4));
	}
}

static cJSON *map_object(const struct map *m, int coarser, size_t *ret_len)
{
	int halved = coarser < COARSER_LEVELS ? coarser : COARSER_LEVELS;
	size_t joined = (size_t)1 << (coarser - halved);
	char *late = map_pack(m, true, LATE_LEVELS >> halved, joined),
	     *step = map_pack(m, false, STEP_LEVELS >> halved, joined), *job = utf8_dup(m->rows[0]->job);
	cJSON *o = late && step && job ? cJSON_CreateObject() : NULL;

	*ret_len = o ? strlen(late) + strlen(step) : 0;
	if (o) {
		cJSON_AddStringToObject(o, "job", job);
		cJSON_AddBoolToObject(o, "by_time", m->by_time);
		cJSON_AddNumberToObject(o, "n_rows", (double)m->n_rows);
		cJSON_AddNumberToObject(o, "n_cols", (double)((m->n_cols + joined - 1) / joined));
		cJSON_AddNumberToObject(o, "joined", (double)(joined << longest(m)->fold));
		cJSON_AddNumberToObject(o, "median_s", m->median_s);
		cJSON_AddNumberToObject(o, "late_floor_s", m->floor_s);
		cJSON_AddNumberToObject(o, "late_levels", LATE_LEVELS >> halved);
		cJSON_AddNumberToObject(o, "step_levels", STEP_LEVELS >> halved);
		add_column_begins(o, m, joined);
		add_rows(o, m);
		cJSON_AddStringToObject(o, "late", late);
		cJSON_AddStringToObject(o, "step", step);
	}
	free(late);
	free(step);
	free(job);
	return o;
}

static cJSON *map_short(const struct map *m, size_t text_max)
{
	cJSON *o = NULL;
	size_t len;

	for (int coarser = 0; coarser <= COARSER_MAX; coarser++) {
		cJSON_Delete(o);
		o = map_object(m, coarser, &len);
		if (!o || len <= text_max)
			break;
	}
	return o;
}

/* Of the rows [from, to), which are of one job; each job has its share of the text by its rows. */
static void add_map(cJSON *list, struct heat_row **rows, size_t n, uint64_t base_ns, uint64_t end_ns, size_t text_max)
{
	struct map m = { .rows = rows, .n_rows = n };
	cJSON *o = NULL;

	if (!map_fill(&m, base_ns, end_ns) && m.n_cols)
		o = map_short(&m, text_max);
	if (o)
		cJSON_AddItemToArray(list, o);
	map_free(&m);
}

cJSON *heat_maps(const struct heat *h, uint64_t base_ns, uint64_t end_ns, size_t text_max)
{
	struct heat_row **rows = calloc(h->n_rows + 1, sizeof(*rows)), *row;
	cJSON *list = cJSON_CreateArray();
	size_t n = 0, from = 0;

	for (row = h->rows; rows && row; row = row->hh.next)
		if (row->n || row->n_points || row->missing_s > 0)
			rows[n++] = row;
	if (n)
		qsort(rows, n, sizeof(*rows), by_rank);
	for (size_t i = 1; i <= n; i++)
		if (i == n || strcmp(rows[i]->job, rows[from]->job)) {
			add_map(list, rows + from, i - from, base_ns, end_ns, text_max / n * (i - from));
			from = i;
		}
	free(rows);
	return list;
}
