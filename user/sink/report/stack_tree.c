/* SPDX-License-Identifier: Apache-2.0
 *
 * stack_tree.c - see stack_tree.h. A trie of frames; a node that has one child with as many threads becomes one with it
 * when it is written.
 */
#include "sink/report/stack_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/utf8.h"
#include "sink/autopsy_stacks.h"
#include "sink/report/spans.h"

#define FRAMES_MAX 128
#define NODES_MAX_KEPT 20000
#define CHILDREN_SHOWN 24
#define SPANS_SHOWN 8

struct frame {
	const char *text; /* not ended: len */
	size_t len;
	int *ranks;
	size_t n, cap;
	const char *state; /* of the thread that ends here; NULL: none does */
	struct frame *children, *next;
};

struct tree {
	struct frame root;
	size_t n_nodes;
};

static void rank_put(struct frame *f, int rank)
{
	size_t cap = f->cap ? 2 * f->cap : 4;
	int *grown;

	if (f->n == f->cap) {
		grown = realloc(f->ranks, cap * sizeof(*grown));
		if (!grown)
			return;
		f->ranks = grown;
		f->cap = cap;
	}
	f->ranks[f->n++] = rank;
}

static struct frame *child_of(struct tree *t, struct frame *f, const char *text, size_t len)
{
	struct frame **at = &f->children;

	while (*at && ((*at)->len != len || memcmp((*at)->text, text, len) != 0))
		at = &(*at)->next;
	if (!*at && t->n_nodes < NODES_MAX_KEPT && (*at = calloc(1, sizeof(**at)))) {
		(*at)->text = text;
		(*at)->len = len;
		t->n_nodes++;
	}
	return *at;
}

static void stack_put(struct tree *t, const char *frames, int rank, const char *state)
{
	const char *lines[FRAMES_MAX];
	size_t lens[FRAMES_MAX], n = 0;
	struct frame *f = &t->root;

	for (const char *s = frames; *s && n < FRAMES_MAX; s += *s == '\n') {
		lines[n] = s;
		lens[n] = strcspn(s, "\n");
		s += lens[n++];
	}
	rank_put(f, rank);
	while (f && n--) {
		f = child_of(t, f, lines[n], lens[n]);
		if (f)
			rank_put(f, rank);
	}
	if (f)
		f->state = state;
}

static const char *state_of(const struct task *t)
{
	switch (t->state) {
	case TASK_ON_CPU:
	case TASK_RUNNABLE: return "running";
	case TASK_DISK: return "blocked (D)";
	case TASK_STOPPED: return "stopped";
	default: return *t->stack.wait ? t->stack.wait : "sleeps";
	}
}

/* --- JSON --- */

static int by_size(const void *a, const void *b)
{
	const struct frame *x = *(const struct frame *const *)a, *y = *(const struct frame *const *)b;

	return x->n != y->n                         ? (x->n < y->n ? -1 : 1)
	       : x->n && x->ranks[0] != y->ranks[0] ? x->ranks[0] - y->ranks[0]
						    : 0;
}

static void add_frame(cJSON *list, const struct frame *f)
{
	char *one = strndup(f->text, f->len), *clean = one ? utf8_dup(one) : NULL;

	cJSON_AddItemToArray(list, cJSON_CreateString(clean ? clean : "?"));
	free(clean);
	free(one);
}

static cJSON *frame_object(struct frame *f);

static void add_children(cJSON *o, const struct frame *f)
{
	struct frame *sorted[CHILDREN_SHOWN];
	size_t n = 0, left = 0;
	cJSON *list;

	for (struct frame *c = f->children; c; c = c->next) {
		if (n < CHILDREN_SHOWN)
			sorted[n++] = c;
		else
			left++;
	}
	if (!n)
		return;
	qsort(sorted, n, sizeof(sorted[0]), by_size);
	list = cJSON_AddArrayToObject(o, "children");
	for (size_t i = 0; i < n; i++)
		cJSON_AddItemToArray(list, frame_object(sorted[i]));
	if (left)
		cJSON_AddNumberToObject(o, "left", (double)left);
}

static cJSON *frame_object(struct frame *f)
{
	cJSON *o = cJSON_CreateObject(), *frames = cJSON_AddArrayToObject(o, "frames");
	struct text ranks = { 0 };
	struct frame *last = f;

	text_spans(&ranks, f->ranks, f->n, SPANS_SHOWN);
	cJSON_AddNumberToObject(o, "n", (double)f->n);
	cJSON_AddStringToObject(o, "of", ranks.data ? ranks.data : "");
	free(ranks.data);
	for (;; last = last->children) {
		if (last->text)
			add_frame(frames, last);
		if (!last->children || last->children->next || last->children->n != f->n)
			break;
	}
	if (last->state) {
		char *clean = utf8_dup(last->state);

		cJSON_AddStringToObject(o, "state", clean ? clean : "");
		free(clean);
	}
	add_children(o, last);
	return o;
}

static void frame_free(struct frame *f)
{
	for (struct frame *c = f->children, *next; c; c = next) {
		next = c->next;
		frame_free(c);
		free(c);
	}
	free(f->ranks);
}

cJSON *stack_tree(const struct model *m)
{
	struct tree t = { 0 };
	cJSON *o = NULL;
	int unread = 0;

	for (const struct proc *p = m->procs; p; p = p->next) {
		const struct task *main = p->dead || p->is_child || autopsy_rank(p) < 0 ? NULL : main_thread(p);

		unread += !p->dead && p->outside.stacks_unread != NULL;
		if (main && main->stack.ns && main->stack.frames && *main->stack.frames)
			stack_put(&t, main->stack.frames, autopsy_rank(p), state_of(main));
	}
	if (t.root.n) {
		o = frame_object(&t.root);
		cJSON_AddNumberToObject(o, "unread", unread);
	}
	frame_free(&t.root);
	return o;
}
