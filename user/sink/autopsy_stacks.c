/* SPDX-License-Identifier: Apache-2.0
 *
 * autopsy_stacks.c - see autopsy_stacks.h.
 */
#include "sink/autopsy_stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink/sink_io.h"
#include "sink/stack_group.h"

#define GROUPS_SHOWN 8
#define LINES_FIRST 16 /* of the group that the fewest ranks are in; of the others: */
#define LINES_OTHER 6
#define RANKS_NAMED 12 /* spans of ranks */

void text_cut(struct text *t, size_t from, int width)
{
	size_t at = from;
	int columns = 0;

	while (width > 1 && at < t->len && columns < width - 1) {
		size_t n = utf8_len(t->data + at);

		at += n ? n : 1;
		columns++;
	}
	if (width <= 1 || at >= t->len || (t->data[at] == '\n' && at + 1 == t->len))
		return;
	if (at + 2 == t->len && t->data[t->len - 1] == '\n') /* it fits to the last column */
		return;
	t->len = at;
	text_add(t, "\u2026\n");
}

struct view {
	struct stack_item *items;
	const struct task **tasks; /* the same order */
	size_t n, cap;
};

/* Whom a reader asks for first: the main threads. Of the others those in which the job's own code may be. */
static bool is_shown(const struct task *t)
{
	return t->stack.ns && (t->tid == t->tgid || *t->stack.python || t->state == TASK_DISK);
}

static int view_add(struct view *v, const struct proc *p, const struct task *t)
{
	size_t cap = v->cap ? 2 * v->cap : 64;
	struct stack_item *items;
	const struct task **tasks;

	if (v->n == v->cap) {
		items = realloc(v->items, cap * sizeof(*items));
		v->items = items ? items : v->items;
		tasks = realloc(v->tasks, cap * sizeof(*tasks));
		v->tasks = tasks ? tasks : v->tasks;
		if (!items || !tasks)
			return -1;
		v->cap = cap;
	}
	v->tasks[v->n] = t;
	v->items[v->n++] = (struct stack_item){ t->stack.frames, autopsy_rank(p), p->tgid, t->tid };
	return 0;
}

/* Of ranks and their children; a launcher, which is neither, only waits for them. Where no process says a rank, of all.
 */
static void view_fill(struct view *v, const struct model *m)
{
	bool some = false;

	for (const struct proc *p = m->procs; p; p = p->next)
		some |= autopsy_rank(p) >= 0;
	for (const struct proc *p = m->procs; p; p = p->next)
		for (const struct task *t = p->dead || (some && autopsy_rank(p) < 0) ? NULL : p->tasks; t; t = t->next)
			if (is_shown(t) && view_add(v, p, t))
				return;
}

/* "ranks 0-2, 5": the items of a group come in the order of ranks. */
static void text_members(struct text *t, const struct view *v, const size_t *order, const struct stack_group *g)
{
	int first = -2, last = -2, spans = 0;

	text_add(t, g->n_ranks == 1 ? "rank " : "ranks ");
	for (size_t i = 0; i <= g->n; i++) {
		int rank = i < g->n ? v->items[order[g->first + i]].rank : -2;

		if (i < g->n && (rank == last || rank == last + 1)) {
			last = rank;
			continue;
		}
		if (first != -2 && spans++ < RANKS_NAMED)
			text_add(t, first == last ? "%s%d" : "%s%d-%d", spans > 1 ? ", " : "", first, last);
		first = last = rank;
	}
	if (spans > RANKS_NAMED)
		text_add(t, ", and more");
}

/* Of one thread what it waits for; of several alike, who may wait for different ones, the system call. */
static void text_wait(struct text *t, const struct task *task, bool is_alone)
{
	char waits[640] = "";

	static const char *const states[] = {
		[TASK_ON_CPU] = ", running",
		[TASK_RUNNABLE] = ", running",
		[TASK_DISK] = ", blocked (D)",
		[TASK_STOPPED] = ", stopped",
	};

	if (task->state < sizeof(states) / sizeof(states[0]) && states[task->state])
		text_add(t, "%s", states[task->state]);
	if (is_alone && task->wait.ns)
		wait_text(&task->wait, waits, sizeof(waits));
	if (*waits) {
		text_add(t, ", ");
		text_foreign(t, waits, NULL);
		return;
	}
	if (*task->stack.wait) {
		text_add(t, ", in ");
		text_foreign(t, task->stack.wait, NULL);
	}
	if (*task->stack.file) {
		text_add(t, " of ");
		text_foreign(t, task->stack.file, NULL);
	}
}

static void text_line(struct text *t, const char *line, int len, int width)
{
	size_t from = t->len;
	char one[512];

	snprintf(one, sizeof(one), "%.*s", len, line);
	text_add(t, "      ");
	text_foreign(t, one, NULL);
	text_add(t, "\n");
	text_cut(t, from, width);
}

static void text_frames(struct text *t, const char *frames, int most, int width)
{
	int n = 0, rest = 0;

	for (const char *line = frames; *line;) {
		int len = strcspn(line, "\n");

		if (n < most)
			text_line(t, line, len, width);
		rest += n++ >= most;
		line += len + (line[len] == '\n');
	}
	if (rest)
		text_add(t, "      ... %d more\n", rest);
}

static void text_group(struct text *t, const struct view *v, const size_t *order, const struct stack_group *g, int most,
		       int width)
{
	const struct task *task = v->tasks[order[g->first]];
	size_t from = t->len;

	text_add(t, "  ");
	text_members(t, v, order, g);
	text_add(t, ": ");
	text_foreign(t, task->name, NULL);
	text_wait(t, task, g->n == 1);
	text_add(t, "\n");
	text_cut(t, from, width);
	if (task->state == TASK_DISK && *task->stack.kernel)
		text_frames(t, task->stack.kernel, LINES_OTHER, width);
	text_frames(t, task->stack.frames, most, width);
	if (*task->stack.end)
		text_add(t, "      (%s)\n", task->stack.end);
}

/* Never silently: a rank without a stack here looks like one that was left out. */
static void text_unread(struct text *t, const struct model *m)
{
	const char *why = NULL;
	int n = 0;

	for (const struct proc *p = m->procs; p; p = p->next)
		if (!p->dead && p->outside.stacks_unread) {
			why = p->outside.stacks_unread;
			n++;
		}
	if (n)
		text_add(t, "  stacks of %d process%s not read: %s\n", n, n == 1 ? "" : "es", why);
}

void text_stacks(struct text *t, const struct model *m, int width)
{
	struct view v = { 0 };

	view_fill(&v, m);

	size_t *order = calloc(v.n + 1, sizeof(*order));
	struct stack_group *groups = calloc(v.n + 1, sizeof(*groups));
	size_t n = order && groups && v.n ? stack_groups_make(v.items, v.n, order, groups) : 0;

	if (n)
		text_add(t, "\n STACKS, innermost first; those of the fewest ranks first\n");
	for (size_t i = 0; i < n && i < GROUPS_SHOWN; i++)
		text_group(t, &v, order, &groups[i], i ? LINES_OTHER : LINES_FIRST, width);
	if (n > GROUPS_SHOWN)
		text_add(t, "  ... %zu more different stacks\n", n - GROUPS_SHOWN);
	if (n)
		text_add(t, "  (whole, and of all threads: ranktrace ps --stacks)\n");
	text_unread(t, m);
	free(order);
	free(groups);
	free(v.items);
	free(v.tasks);
}
