/* SPDX-License-Identifier: Apache-2.0
 *
 * columns.c - see columns.h. The nine columns that answer "who is late, where, why" fill 80; the others come with
 * width. The last one takes what is left.
 */
#include "top/columns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink/incident_text.h"
#include "top/pages.h"

#define FINDING_MIN 9

struct column {
	const char *title;
	int width;
	int from; /* shown from so many columns on */
	bool right;
	/* Its text into to[64]. Of a row, or (second) of a group; NULL there: not shown of it. */
	enum ink (*of_row)(const struct top_row *r, char *to);
	enum ink (*of_group)(const struct top_group *g, char *to);
};

#define TEXT 64
#define PUT(...) snprintf(to, TEXT, __VA_ARGS__)

/* --- of a rank --- */

static enum ink rank_put(const struct top_row *r, char *to)
{
	PUT(r->rank >= 0 ? "%d" : "?", r->rank);
	return INK_PLAIN;
}

static enum ink state_put(const struct top_row *r, char *to)
{
	PUT("%s", top_state_name(r->state));
	if (r->state <= TOP_LATE)
		return INK_BAD;
	return r->state == TOP_WAITS ? INK_WARNING : r->state == TOP_MOVES ? INK_GOOD : INK_DIM;
}

static enum ink operation_put(const struct top_row *r, char *to)
{
	top_row_op(r, to, TEXT);
	return INK_PLAIN;
}

static enum ink lag_put(const struct top_row *r, char *to)
{
	if (r->has_seq)
		PUT("%llu", (unsigned long long)r->lag);
	else
		PUT("?");
	return r->state == TOP_LATE ? INK_BAD : INK_PLAIN;
}

static enum ink wait_put(const struct top_row *r, char *to)
{
	top_duration(to, TEXT, (double)r->wait_ns * 1e-9);
	return INK_PLAIN;
}

static enum ink step_put(const struct top_row *r, char *to)
{
	top_duration(to, TEXT, r->step_s);
	return INK_PLAIN;
}

static enum ink phase_put(const struct top_row *r, char *to)
{
	PUT("%s", r->phase < 0 ? "-" : step_phase_name(r->phase));
	return INK_PLAIN;
}

static enum ink gpu_put(const struct top_row *r, char *to)
{
	if (!r->gpu)
		PUT("-");
	else if (r->gpu->answer != GPU_IS_THERE)
		PUT("%u LOST", r->gpu->device.index);
	else
		PUT("%u %s", r->gpu->device.index, top_gpu_role(r->activity.role));
	return r->gpu && r->gpu->answer != GPU_IS_THERE ? INK_BAD : INK_PLAIN;
}

static enum ink host_put(const struct top_row *r, char *to)
{
	PUT("%s", r->host);
	return INK_PLAIN;
}

static enum ink pid_put(const struct top_row *r, char *to)
{
	PUT("%u", r->proc->tgid);
	return INK_PLAIN;
}

static enum ink job_put(const struct top_row *r, char *to)
{
	PUT("%s", r->job);
	return INK_PLAIN;
}

static enum ink cpu_put(const struct top_row *r, char *to)
{
	if (r->cpu < 0)
		PUT("-");
	else
		PUT("%.0f%%", 100 * r->cpu);
	return INK_PLAIN;
}

static enum ink sm_put(const struct top_row *r, char *to)
{
	if (!r->gpu || r->activity.role == GPU_ROLE_UNKNOWN)
		PUT("-");
	else
		PUT("%.0f%%", r->activity.sm);
	return INK_PLAIN;
}

static enum ink watts_put(const struct top_row *r, char *to)
{
	const struct gpu_sampled *s = r->gpu ? gpu_sample(r->gpu, 0) : NULL;

	if (s && s->s.power_mw != GPU_NO_VALUE)
		PUT("%.0fW", s->s.power_mw * 1e-3);
	else
		PUT("-");
	return INK_PLAIN;
}

/* --- of a group --- */

static enum ink group_name_put(const struct top_group *g, char *to)
{
	PUT("%s", *g->name ? g->name : "(no name)");
	return INK_PLAIN;
}

static void count_put(char *to, unsigned int n)
{
	PUT(n ? "%u" : "-", n);
}

static enum ink group_n_put(const struct top_group *g, char *to)
{
	count_put(to, g->n);
	return INK_PLAIN;
}

static enum ink group_moves_put(const struct top_group *g, char *to)
{
	count_put(to, g->n_state[TOP_MOVES]);
	return INK_GOOD;
}

static enum ink group_waits_put(const struct top_group *g, char *to)
{
	count_put(to, g->n_state[TOP_WAITS] + g->n_state[TOP_STANDS]);
	return g->n_state[TOP_WAITS] ? INK_WARNING : INK_PLAIN;
}

static enum ink group_late_put(const struct top_group *g, char *to)
{
	count_put(to, g->n_state[TOP_LATE]);
	return INK_BAD;
}

static enum ink group_down_put(const struct top_group *g, char *to)
{
	count_put(to,
		  g->n_state[TOP_DEAD] + g->n_state[TOP_STOPPED] + g->n_state[TOP_BLOCKED] + g->n_state[TOP_SILENT]);
	return INK_BAD;
}

static enum ink group_lag_put(const struct top_group *g, char *to)
{
	PUT("%llu", (unsigned long long)g->lag);
	return INK_PLAIN;
}

static enum ink group_wait_put(const struct top_group *g, char *to)
{
	top_duration(to, TEXT, (double)g->wait_ns * 1e-9);
	return INK_PLAIN;
}

static enum ink group_step_put(const struct top_group *g, char *to)
{
	top_duration(to, TEXT, g->step_s);
	return INK_PLAIN;
}

/* clang-format off */
static const struct column columns[] = {
	{ "RANK", 5, 0, true, rank_put, NULL },
	{ "NAME", 18, 0, false, NULL, group_name_put },
	{ "HOST", 16, 110, false, host_put, NULL },
	{ "PID", 8, 120, true, pid_put, NULL },
	{ "STATE", 7, 0, false, state_put, NULL },
	{ "OPERATION", 17, 0, false, operation_put, NULL },
	{ "RANKS", 5, 0, true, NULL, group_n_put },
	{ "MOVE", 5, 0, true, NULL, group_moves_put },
	{ "WAIT", 5, 0, true, NULL, group_waits_put },
	{ "LATE", 4, 0, true, NULL, group_late_put },
	{ "DOWN", 5, 0, true, NULL, group_down_put },
	{ "LAG", 4, 0, true, lag_put, group_lag_put },
	{ "WAIT", 6, 0, true, wait_put, NULL },
	{ "LONGEST", 7, 0, true, NULL, group_wait_put },
	{ "STEP", 6, 0, true, step_put, group_step_put },
	{ "PHASE", 9, 0, false, phase_put, NULL },
	{ "CPU", 5, 130, true, cpu_put, NULL },
	{ "GPU", 9, 0, false, gpu_put, NULL },
	{ "SM", 5, 140, true, sm_put, NULL },
	{ "POWER", 6, 150, true, watts_put, NULL },
	{ "JOB", 16, 160, false, job_put, NULL },
};
/* clang-format on */
#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))

static bool is_shown(const struct column *k, const struct canvas *c, bool groups)
{
	return c->cols >= k->from && (groups ? k->of_group != NULL : k->of_row != NULL);
}

static void cell_put(struct canvas *c, int line, int at, const struct column *k, enum ink ink, const char *text)
{
	if (k->right)
		canvas_put_right(c, line, at, k->width, ink, text);
	else
		canvas_put(c, line, at, k->width, ink, text);
}

void top_titles_put(struct canvas *c, int line, const struct top_view *v)
{
	int at = 0;

	for (const struct column *k = columns; k < columns + N_COLUMNS; k++) {
		if (!is_shown(k, c, v->groups))
			continue;
		cell_put(c, line, at, k, INK_HEAD,
			 v->groups && k->of_group == group_name_put ? top_grouping_name(v->level) : k->title);
		at += k->width + 1;
	}
	canvas_put(c, line, at, c->cols, INK_HEAD, "FINDING");
}

enum ink top_severity_ink(const struct incident *i)
{
	if (!i)
		return INK_PLAIN;
	return i->f.severity == SEVERITY_CRITICAL ? INK_BAD : i->f.severity == SEVERITY_WARNING ? INK_WARNING : INK_DIM;
}

/* What kind; where there is room for it, the sentence. */
static void finding_put(struct canvas *c, int line, int at, const struct incident *i)
{
	struct text t = { 0 };

	if (!i)
		return;
	at = canvas_put(c, line, at, c->cols, top_severity_ink(i), finding_kind_shown(&i->f));
	if (c->cols - at < 2 * FINDING_MIN)
		return;
	incident_text_sentence(&t, i);
	if (t.data)
		canvas_putf(c, line, at, c->cols, INK_PLAIN, ": %s", t.data);
	free(t.data);
}

void top_row_put(struct canvas *c, int line, const struct top_row *r)
{
	int at = 0;
	char text[TEXT];

	for (const struct column *k = columns; k < columns + N_COLUMNS; k++) {
		enum ink ink;

		if (!is_shown(k, c, false))
			continue;
		ink = k->of_row(r, text);
		cell_put(c, line, at, k, ink, text);
		at += k->width + 1;
	}
	finding_put(c, line, at, r->worst);
}

void top_group_put(struct canvas *c, int line, const struct top_group *g)
{
	int at = 0;
	char text[TEXT];

	for (const struct column *k = columns; k < columns + N_COLUMNS; k++) {
		enum ink ink;

		if (!is_shown(k, c, true))
			continue;
		ink = k->of_group(g, text);
		cell_put(c, line, at, k, ink, text);
		at += k->width + 1;
	}
	finding_put(c, line, at, g->worst);
}
