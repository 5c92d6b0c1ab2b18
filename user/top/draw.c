/* SPDX-License-Identifier: Apache-2.0
 *
 * draw.c - see draw.h.
 */
#include "top/draw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sink/incident_text.h"
#include "top/columns.h"
#include "top/pages.h"

#define SLIDER_AT 20

/* --- above the page --- */

static void clock_text(char *to, size_t size, const struct model *m)
{
	time_t s = (time_t)((m->now_ns + m->realtime_offset_ns) / 1000000000);
	struct tm at;

	*to = 0;
	if (m->now_ns && gmtime_r(&s, &at))
		strftime(to, size, "%Y-%m-%d %H:%M:%S UTC", &at);
}

static void title_draw(struct canvas *c, const struct top_table *t, const struct top_source *s)
{
	char clock[40] = "";
	int at = canvas_putf(c, 0, 0, c->cols, INK_HEAD, "ranktrace top  %s", s->name);

	if (s->tier)
		at = canvas_putf(c, 0, at, c->cols, INK_HEAD, "  tier %s", s->tier);
	if (s->ended && !s->seekable)
		at = canvas_put(c, 0, at, c->cols, INK_HEAD, "  ENDED");
	if (t->n_parts)
		clock_text(clock, sizeof(clock), t->parts[0].m);
	if (at + 2 + (int)strlen(clock) <= c->cols)
		canvas_put_right(c, 0, c->cols - (int)strlen(clock), (int)strlen(clock), INK_HEAD, clock);
	canvas_mark(c, 0);
}

static void counts_draw(struct canvas *c, int line, const struct top_table *t)
{
	static const enum ink inks[TOP_STATE_MAX] = { INK_BAD,     INK_BAD, INK_BAD,  INK_BAD, INK_BAD,
						      INK_WARNING, INK_DIM, INK_GOOD, INK_DIM, INK_DIM };
	int at = canvas_putf(c, line, 0, c->cols, INK_PLAIN, "%zu rank%s:", t->n, t->n == 1 ? "" : "s");

	for (int i = 0; i < TOP_STATE_MAX; i++)
		if (t->n_state[i])
			at = canvas_putf(c, line, at, c->cols, inks[i], " %u %s ", t->n_state[i], top_state_name(i));
	canvas_putf(c, line, at, c->cols, INK_PLAIN, "  findings: %u critical, %u warning, %u info",
		    t->n_open[SEVERITY_CRITICAL], t->n_open[SEVERITY_WARNING], t->n_open[SEVERITY_INFO]);
}

static void worst_draw(struct canvas *c, int line, const struct top_table *t)
{
	const struct incident *i = t->n_found ? t->found[0].i : NULL;
	struct text text = { 0 };

	if (!i) {
		canvas_put(c, line, 0, c->cols, INK_GOOD, "no finding is open");
		return;
	}
	incident_text_head(&text, i);
	incident_text_sentence(&text, i);
	canvas_put(c, line, 0, c->cols, top_severity_ink(i), text.data ? text.data : "");
	free(text.data);
}

static int slider_column(const struct top_source *s, uint64_t ns, int width)
{
	double part = s->end_ns > s->begin_ns && ns > s->begin_ns
			      ? (double)(ns - s->begin_ns) / (double)(s->end_ns - s->begin_ns)
			      : 0;

	return (int)((part > 1 ? 1 : part) * (width - 1));
}

/* "   12.0 s of 60.0 s [=====|----!----]": where it is, and where findings opened. */
static void slider_draw(struct canvas *c, int line, const struct top_table *t, const struct top_source *s)
{
	int width = c->cols - SLIDER_AT - 2, at = slider_column(s, t->now_ns, width), mark;
	uint64_t now_ns = t->now_ns > s->begin_ns ? t->now_ns - s->begin_ns : 0;

	canvas_putf(c, line, 0, SLIDER_AT, INK_PLAIN, "%.1f of %.1f s%s", (double)now_ns * 1e-9,
		    (double)(s->end_ns - s->begin_ns) * 1e-9, s->playing ? " >" : "");
	canvas_put(c, line, SLIDER_AT, 1, INK_DIM, "[");
	for (int i = 0; i < width; i++)
		canvas_put(c, line, SLIDER_AT + 1 + i, 1, i <= at ? INK_GOOD : INK_DIM, i < at ? "=" : "-");
	for (size_t i = 0; i < s->n_opened; i++) {
		mark = slider_column(s, s->opened_ns[i], width);
		canvas_put(c, line, SLIDER_AT + 1 + mark, 1, INK_BAD, "!");
	}
	canvas_put(c, line, SLIDER_AT + 1 + at, 1, INK_HEAD, "|");
	canvas_put(c, line, SLIDER_AT + 1 + width, 1, INK_DIM, "]");
}

/* --- the page --- */

static void text_draw(struct canvas *c, int line, int lines, const struct top_view *v)
{
	const char *at = v->text.data ? v->text.data : "";

	for (size_t i = 0; i < v->scroll && *at; i++) {
		at = strchrnul(at, '\n');
		at += *at == '\n';
	}
	for (int i = 0; i < lines && *at; i++) {
		size_t len = strcspn(at, "\n");
		char one[CANVAS_COLS_MAX + 1];

		snprintf(one, sizeof(one), "%.*s", (int)(len < CANVAS_COLS_MAX ? len : CANVAS_COLS_MAX), at);
		canvas_put(c, line + i, 0, c->cols, INK_PLAIN, one);
		at += len + (at[len] == '\n');
	}
}

static void ranks_draw(struct canvas *c, int line, int lines, const struct top_view *v, const struct top_table *t)
{
	for (int i = 0; i < lines && v->scroll + (size_t)i < v->n_lines; i++) {
		size_t at = v->scroll + (size_t)i;

		if (v->groups)
			top_group_put(c, line + i, &v->groups[at]);
		else
			top_row_put(c, line + i, t->order[at]);
		if (at == v->cursor)
			canvas_mark(c, line + i);
	}
	if (!v->n_lines)
		canvas_put(c, line, 0, c->cols, INK_DIM,
			   *v->filter ? "no rank is like that (Esc: all)" : "no rank of a job is seen yet");
}

static void incident_draw(struct canvas *c, int line, const struct incident *i, const struct model *m)
{
	struct text t = { 0 };
	char age[32];
	int at;

	top_duration(age, sizeof(age), m->now_ns > i->f.since_ns ? (double)(m->now_ns - i->f.since_ns) * 1e-9 : 0);
	canvas_put_right(c, line, 0, 7, INK_PLAIN, age);
	canvas_put(c, line, 8, 8, top_severity_ink(i), severity_name(i->f.severity));
	at = canvas_putf(c, line, 17, c->cols, INK_PLAIN, "%s", *i->caused_by ? "> " : "");
	incident_text_place(&t, i, m);
	incident_text_sentence(&t, i);
	canvas_put(c, line, at, c->cols, INK_PLAIN, t.data ? t.data : "");
	free(t.data);
}

static void findings_draw(struct canvas *c, int line, int lines, const struct top_view *v, const struct top_table *t)
{
	for (int i = 0; i < lines && v->scroll + (size_t)i < v->n_lines; i++) {
		const struct top_found *found = &t->found[v->scroll + (size_t)i];

		incident_draw(c, line + i, found->i, found->m);
		if (v->scroll + (size_t)i == v->cursor)
			canvas_mark(c, line + i);
	}
	if (!v->n_lines)
		canvas_put(c, line, 0, c->cols, INK_GOOD, "no finding is open");
}

static void head_draw(struct canvas *c, int line, const struct top_view *v)
{
	static const char *const heads[] = { [TOP_GPUS] = "GPUS",
					     [TOP_MESSAGES] = "MESSAGES",
					     [TOP_HELP] = "KEYS",
					     [TOP_RANK] = "RANK",
					     [TOP_FINDING] = "FINDING" };

	if (v->page == TOP_RANKS)
		top_titles_put(c, line, v);
	else if (v->page == TOP_FINDINGS)
		canvas_put(c, line, 0, c->cols, INK_HEAD, "  SINCE SEVERITY FINDING (>: follows from another)");
	else
		canvas_put(c, line, 0, c->cols, INK_HEAD, heads[v->page]);
	canvas_mark(c, line);
}

/* --- below it --- */

static int place_draw(struct canvas *c, int line, const struct top_view *v)
{
	size_t at = (v->page == TOP_RANKS || v->page == TOP_FINDINGS ? v->cursor : v->scroll) + (v->n_lines > 0);
	int col = canvas_putf(c, line, 0, c->cols, INK_PLAIN, "%zu/%zu ", at, v->n_lines);

	if (v->page != TOP_RANKS)
		return col;
	if (v->choice.host || v->choice.job)
		col = canvas_putf(c, line, col, c->cols, INK_HEAD, "%s ",
				  v->choice.host ? v->choice.host : v->choice.job);
	col = canvas_putf(c, line, col, c->cols, INK_DIM, "by %s%s ", top_sort_name(v->choice.sort),
			  v->choice.reversed ? ", reversed" : "");
	return *v->filter ? canvas_putf(c, line, col, c->cols, INK_HEAD, "/%s ", v->filter) : col;
}

static void foot_draw(struct canvas *c, int line, const struct top_view *v, const struct top_source *s)
{
	static const char keys[] = "?:help q:quit Enter:open s:sort /:filter g:group 1-4:pages";
	static const char of_rank[] = "?:help Esc:back u:stack t:probes d:dump a:ack";
	static const char of_recording[] = "?:help Esc:back n N:findings arrows:time 1-4:pages";
	bool one = v->page == TOP_RANK || v->page == TOP_FINDING;
	int at;

	if (v->typing) {
		canvas_putf(c, line, 0, c->cols, INK_HEAD, "filter: %s_   (Enter: keep, Esc: all)", v->filter);
		return;
	}
	at = place_draw(c, line, v);
	if (*s->message)
		canvas_put(c, line, at, c->cols, INK_WARNING, s->message);
	else
		canvas_put(c, line, at, c->cols, INK_DIM, !one ? keys : s->seekable ? of_recording : of_rank);
}

static int head_lines(const struct top_source *s)
{
	return s->seekable ? 4 : 3;
}

void top_settle(struct top_view *v, struct top_table *t, const struct top_source *s, int rows, int cols)
{
	int lines = rows - head_lines(s) - 2;

	top_view_turn(v, t, s, lines > 0 ? (size_t)lines : 1, cols);
}

void top_draw(struct canvas *c, struct top_view *v, struct top_table *t, const struct top_source *s)
{
	int head = head_lines(s), lines = c->rows - head - 2;

	if (c->rows < TOP_ROWS_MIN || c->cols < TOP_COLS_MIN) {
		canvas_putf(c, 0, 0, c->cols, INK_PLAIN, "at least %d x %d", TOP_COLS_MIN, TOP_ROWS_MIN);
		return;
	}
	top_settle(v, t, s, c->rows, c->cols);
	title_draw(c, t, s);
	counts_draw(c, 1, t);
	worst_draw(c, 2, t);
	if (s->seekable)
		slider_draw(c, 3, t, s);
	head_draw(c, head, v);
	if (v->page == TOP_RANKS)
		ranks_draw(c, head + 1, lines, v, t);
	else if (v->page == TOP_FINDINGS)
		findings_draw(c, head + 1, lines, v, t);
	else
		text_draw(c, head + 1, lines, v);
	foot_draw(c, c->rows - 1, v, s);
}
