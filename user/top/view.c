/* SPDX-License-Identifier: Apache-2.0
 *
 * view.c - see view.h.
 */
#include "top/view.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/larger.h"
#include "top/pages.h"

#define GROUPS_FROM 64 /* ranks; more are shown by host until the user says otherwise */
#define SECOND_NS 1000000000ull
#define TICK_NS 250000000ull

void top_view_init(struct top_view *v)
{
	*v = (struct top_view){ .rank = -1, .choice.filter = v->filter };
}

void top_view_free(struct top_view *v)
{
	free(v->groups);
	free(v->text.data);
	v->groups = NULL;
	v->text = (struct text){ 0 };
}

/* --- what is shown --- */

static bool is_text(enum top_page p)
{
	return p != TOP_RANKS && p != TOP_FINDINGS;
}

static bool has_jobs(const struct top_table *t)
{
	for (size_t i = 1; i < t->n; i++)
		if (strcmp(t->order[i]->job, t->order[0]->job))
			return true;
	return false;
}

static void grouping_settle(struct top_view *v, const struct top_table *t)
{
	if (!v->grouping_set)
		v->grouping = has_jobs(t) ? TOP_OF_JOB : t->n > GROUPS_FROM ? TOP_OF_HOST : TOP_OF_NONE;
}

/* What a row is: one that is opened by name shows its ranks, and a job of many its hosts before. */
static enum top_grouping level_of(const struct top_view *v)
{
	if (v->choice.host || *v->filter)
		return TOP_OF_NONE;
	if (!v->choice.job)
		return v->grouping;
	return v->n_rows > GROUPS_FROM ? TOP_OF_HOST : TOP_OF_NONE;
}

static void row_follow(struct top_view *v, const struct top_table *t)
{
	for (size_t i = 0; v->follows && i < v->n_rows; i++)
		if (t->order[i]->proc->key == v->proc && t->order[i]->rank == v->rank) {
			v->cursor = i;
			return;
		}
}

static void rows_turn(struct top_view *v, struct top_table *t)
{
	grouping_settle(v, t);
	v->n_rows = top_choose(t, &v->choice);
	v->level = level_of(v);
	if (v->level != TOP_OF_NONE)
		v->groups = top_groups(t, v->n_rows, v->level, &v->n_groups);
	else
		row_follow(v, t);
	v->n_lines = v->groups ? v->n_groups : v->n_rows;
}

static size_t lines_of(const struct text *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->len; i++)
		n += t->data[i] == '\n';
	return n;
}

static void scroll_settle(struct top_view *v, size_t lines)
{
	size_t last = v->n_lines ? v->n_lines - 1 : 0, behind = v->n_lines > lines ? v->n_lines - lines : 0;

	v->cursor = smaller(v->cursor, last);
	if (is_text(v->page))
		v->scroll = smaller(v->scroll, behind);
	else if (v->cursor < v->scroll)
		v->scroll = v->cursor;
	else if (v->cursor >= v->scroll + lines)
		v->scroll = v->cursor + 1 - lines;
	if (!is_text(v->page))
		v->scroll = smaller(v->scroll, behind);
}

void top_view_turn(struct top_view *v, struct top_table *t, const struct top_source *s, size_t lines, int cols)
{
	top_view_free(v);
	v->n_groups = 0;
	if (v->page == TOP_RANKS)
		rows_turn(v, t);
	else if (v->page == TOP_FINDINGS)
		v->n_lines = t->n_found;
	else
		top_page_text(&v->text, v, t, s);
	if (is_text(v->page)) {
		text_fold(&v->text, cols);
		v->n_lines = lines_of(&v->text);
	}
	scroll_settle(v, lines ? lines : 1);
}

const struct top_row *top_view_row(const struct top_view *v, const struct top_table *t)
{
	if (v->page == TOP_RANKS)
		return !v->groups && v->cursor < v->n_rows ? t->order[v->cursor] : NULL;
	return v->page == TOP_RANK ? keyed_find(&t->rows, v->proc, (uint64_t)(int64_t)v->rank) : NULL;
}

static const struct top_found *found_of(const struct top_table *t, const struct incident *i)
{
	for (size_t k = 0; i && k < t->n_found; k++)
		if (t->found[k].i == i)
			return &t->found[k];
	return NULL;
}

const struct top_found *top_view_found(const struct top_view *v, const struct top_table *t)
{
	const struct top_row *r = top_view_row(v, t);

	if (v->page == TOP_FINDINGS)
		return v->cursor < t->n_found ? &t->found[v->cursor] : NULL;
	if (v->page != TOP_FINDING)
		return found_of(t, r ? r->worst : NULL);
	for (size_t k = 0; k < t->n_found; k++)
		if (!strcmp(t->found[k].i->id, v->incident))
			return &t->found[k];
	return NULL;
}

/* --- keys --- */

static void selection_keep(struct top_view *v, const struct top_table *t)
{
	const struct top_row *r = top_view_row(v, t);

	if (!r)
		return;
	v->follows = v->cursor > 0;
	v->proc = r->proc->key;
	v->rank = r->rank;
}

static void move(struct top_view *v, int by, const struct top_table *t)
{
	size_t *at = is_text(v->page) ? &v->scroll : &v->cursor;

	if (by < 0)
		*at = *at > (size_t)-by ? *at - (size_t)-by : 0;
	else
		*at = smaller(*at + (size_t)by, v->n_lines ? v->n_lines - 1 : 0);
	selection_keep(v, t);
}

static void page_open(struct top_view *v, enum top_page page)
{
	if (!is_text(v->page) && is_text(page)) {
		v->from = v->page;
		v->list_cursor = v->cursor;
		v->list_scroll = v->scroll;
	}
	if (!is_text(v->page) && !is_text(page))
		v->follows = false;
	v->page = page;
	v->cursor = v->scroll = 0;
}

static void page_back(struct top_view *v)
{
	v->page = v->from;
	v->cursor = v->list_cursor;
	v->scroll = v->list_scroll;
}

static void name_copy(char to[TOP_NAME_MAX], const char *name)
{
	snprintf(to, TOP_NAME_MAX, "%s", name);
}

static void group_open(struct top_view *v, const struct top_group *g)
{
	bool is_job = v->level == TOP_OF_JOB;
	char *to = is_job ? v->job : v->host;

	name_copy(to, g->name);
	*(is_job ? &v->choice.job : &v->choice.host) = to;
	v->group_cursor[is_job] = v->cursor;
	v->cursor = v->scroll = 0;
	v->follows = false;
}

static enum top_want enter(struct top_view *v, const struct top_table *t)
{
	const struct top_row *r = top_view_row(v, t);
	const struct top_found *found = v->page == TOP_FINDINGS ? top_view_found(v, t) : NULL;

	if (v->page == TOP_RANKS && v->groups && v->cursor < v->n_groups) {
		group_open(v, &v->groups[v->cursor]);
	} else if (v->page == TOP_RANKS && r) {
		v->proc = r->proc->key;
		v->rank = r->rank;
		page_open(v, TOP_RANK);
		return TOP_WANT_STACKS;
	} else if (found) {
		memcpy(v->incident, found->i->id, sizeof(v->incident));
		page_open(v, TOP_FINDING);
	}
	return TOP_WANT_NOTHING;
}

/* One level up: out of a page, a filter, a group. */
static void back(struct top_view *v)
{
	if (is_text(v->page)) {
		page_back(v);
	} else if (v->page == TOP_FINDINGS) {
		page_open(v, TOP_RANKS);
	} else if (*v->filter) {
		*v->filter = 0;
	} else if (v->choice.job || v->choice.host) {
		bool is_job = !v->choice.host;

		*(is_job ? &v->choice.job : &v->choice.host) = NULL;
		v->cursor = v->group_cursor[is_job];
		v->follows = false;
	}
}

/* --- time --- */

static enum top_want seek(struct top_view *v, const struct top_source *s, uint64_t to_ns)
{
	if (!s->seekable)
		return TOP_WANT_NOTHING;
	v->seek_ns = larger(s->begin_ns, smaller(to_ns, s->end_ns));
	v->seeks = true;
	return TOP_WANT_SEEK;
}

static uint64_t time_of(const struct top_view *v, const struct top_table *t)
{
	return v->seeks ? v->seek_ns : t->now_ns;
}

static enum top_want seek_by(struct top_view *v, const struct top_table *t, const struct top_source *s, int64_t by_ns)
{
	uint64_t now_ns = time_of(v, t);

	return seek(v, s,
		    by_ns < 0 && now_ns < s->begin_ns + (uint64_t)-by_ns ? s->begin_ns : now_ns + (uint64_t)by_ns);
}

/* To where the next finding opened, or the one before. */
static enum top_want seek_finding(struct top_view *v, const struct top_table *t, const struct top_source *s, bool next)
{
	uint64_t found_ns = 0, now_ns = time_of(v, t);

	for (size_t i = 0; i < s->n_opened; i++) {
		if (next && s->opened_ns[i] > now_ns)
			return seek(v, s, s->opened_ns[i]);
		if (!next && s->opened_ns[i] < now_ns)
			found_ns = s->opened_ns[i];
	}
	return found_ns ? seek(v, s, found_ns) : TOP_WANT_NOTHING;
}

static enum top_want time_key(struct top_view *v, int key, const struct top_table *t, const struct top_source *s)
{
	int64_t part_ns = (int64_t)((s->end_ns - s->begin_ns) / 20);

	switch (key) {
	case TOP_KEY_LEFT: return seek_by(v, t, s, -(int64_t)SECOND_NS);
	case TOP_KEY_RIGHT: return seek_by(v, t, s, (int64_t)SECOND_NS);
	case ',': return seek_by(v, t, s, -(int64_t)TICK_NS);
	case '.': return seek_by(v, t, s, (int64_t)TICK_NS);
	case '<': return seek_by(v, t, s, -part_ns);
	case '>': return seek_by(v, t, s, part_ns);
	case '^': return seek(v, s, s->begin_ns);
	case '$': return seek(v, s, s->end_ns);
	case 'n': return seek_finding(v, t, s, true);
	case 'N': return seek_finding(v, t, s, false);
	case ' ': return TOP_WANT_PLAY;
	default: return TOP_WANT_NOTHING;
	}
}

/* --- all keys --- */

static void filter_key(struct top_view *v, int key)
{
	size_t len = strlen(v->filter);

	if (key == TOP_KEY_ENTER) {
		v->typing = false;
	} else if (key == TOP_KEY_ESCAPE) {
		*v->filter = 0;
		v->typing = false;
	} else if (key == TOP_KEY_BACK) {
		v->filter[len ? len - 1 : 0] = 0;
	} else if (key >= ' ' && key < 127 && len + 1 < sizeof(v->filter)) {
		v->filter[len] = (char)key;
		v->filter[len + 1] = 0;
	}
	v->cursor = v->scroll = 0;
	v->follows = false;
}

static bool move_key(struct top_view *v, int key, const struct top_table *t)
{
	switch (key) {
	case TOP_KEY_UP:
	case 'k': move(v, -1, t); return true;
	case TOP_KEY_DOWN:
	case 'j': move(v, 1, t); return true;
	case TOP_KEY_PAGE_UP: move(v, -15, t); return true;
	case TOP_KEY_PAGE_DOWN: move(v, 15, t); return true;
	case TOP_KEY_HOME: move(v, -1000000, t); return true;
	case TOP_KEY_END: move(v, 1000000, t); return true;
	default: return false;
	}
}

static bool page_key(struct top_view *v, int key)
{
	static const struct {
		int key;
		enum top_page page;
	} pages[] = { { '1', TOP_RANKS },    { '2', TOP_FINDINGS }, { '3', TOP_GPUS },
		      { '4', TOP_MESSAGES }, { '?', TOP_HELP },     { 'h', TOP_HELP } };

	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
		if (pages[i].key == key) {
			page_open(v, pages[i].page);
			return true;
		}
	return false;
}

static bool order_key(struct top_view *v, int key)
{
	switch (key) {
	case 's': v->choice.sort = (v->choice.sort + 1) % TOP_SORT_MAX; break;
	case 'S': v->choice.sort = (v->choice.sort + TOP_SORT_MAX - 1) % TOP_SORT_MAX; break;
	case 'r': v->choice.reversed = !v->choice.reversed; break;
	case 'g':
		v->grouping = (v->grouping + 1) % TOP_GROUPING_MAX;
		v->grouping_set = true;
		v->choice.job = v->choice.host = NULL;
		break;
	case '/':
		v->typing = true;
		*v->filter = 0;
		page_open(v, TOP_RANKS);
		break;
	default: return false;
	}
	v->cursor = v->scroll = 0;
	v->follows = false;
	return true;
}

/* What is asked for is of the row or finding that is selected. */
static enum top_want request_key(struct top_view *v, int key, const struct top_table *t)
{
	const struct top_row *r = top_view_row(v, t);
	const struct top_found *found = top_view_found(v, t);

	if (r) {
		v->proc = r->proc->key;
		v->rank = r->rank;
	}
	if (found)
		memcpy(v->incident, found->i->id, sizeof(v->incident));
	else
		v->incident[0] = 0;
	switch (key) {
	case 't': return TOP_WANT_RAISE;
	case 'u': return TOP_WANT_STACKS;
	case 'd': return TOP_WANT_DUMP;
	case 'a': return TOP_WANT_ACKNOWLEDGE;
	default: return TOP_WANT_NOTHING;
	}
}

enum top_want top_view_key(struct top_view *v, int key, const struct top_table *t, const struct top_source *s)
{
	enum top_want want;

	if (v->typing) {
		filter_key(v, key);
		return TOP_WANT_NOTHING;
	}
	if (key == 'q')
		return TOP_WANT_QUIT;
	if (move_key(v, key, t) || page_key(v, key) || order_key(v, key))
		return TOP_WANT_NOTHING;
	if (key == TOP_KEY_ENTER)
		return enter(v, t);
	if (key == TOP_KEY_BACK || key == TOP_KEY_ESCAPE || (key == TOP_KEY_LEFT && !s->seekable)) {
		back(v);
		return TOP_WANT_NOTHING;
	}
	want = time_key(v, key, t, s);
	return want == TOP_WANT_NOTHING ? request_key(v, key, t) : want;
}
