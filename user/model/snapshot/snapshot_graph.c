/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot_graph.c - captured graphs of a snapshot: what was captured, written once however many graphs share it, then
 * the graphs, execs and captures that hold it. Past CAPTURED_EMITTED things a graph's content is left out, and said to
 * be cut: its launches then make what they number incomparable, instead of wrong.
 */
#include <errno.h>
#include <stdlib.h>

#include "model/snapshot/snapshot_private.h"

#define CAPTURED_EMITTED 32768 /* things in a snapshot: 3 MB */
#define WORKS_MAX 65536        /* taken */

static void items_emit(struct snapshot_writer *r, const struct proc *p, const struct work *w)
{
	struct {
		struct snapshot_captured_list l;
		struct snapshot_captured items[SNAPSHOT_PER_RECORD];
	} b = { .l.work = w->number };

	for (size_t i = 0; i < w->n; i += b.l.n) {
		for (b.l.n = 0; b.l.n < SNAPSHOT_PER_RECORD && i + b.l.n < w->n; b.l.n++) {
			const struct captured *c = &w->items[i + b.l.n];

			b.items[b.l.n] = (struct snapshot_captured){ .comm = c->comm,
								     .count = c->count,
								     .group = c->group,
								     .ns = c->ns,
								     .dep_n = c->dep_n,
								     .kind = c->kind,
								     .dtype = c->dtype,
								     .redop = c->redop,
								     .root = c->root,
								     .peer = c->peer,
								     .lane = c->lane,
								     .dep_lane = c->dep_lane };
		}
		emit_body(r, p, 0, SNAPSHOT_CAPTURED, &b, sizeof(b.l) + b.l.n * sizeof(b.items[0]), NULL, 0);
	}
}

static uint64_t work_emit(struct snapshot_writer *r, const struct proc *p, struct work *w)
{
	bool fits = r->n_captured + w->n <= CAPTURED_EMITTED;
	struct snapshot_work b = {
		.begin_ns = w->begin_ns, .end_ns = w->end_ns, .n_lanes = w->n_lanes, .cut = w->cut || !fits
	};

	if (w->number)
		return w->number;
	b.work = w->number = ++r->n_works;
	emit_body(r, p, 0, SNAPSHOT_WORK, &b, sizeof(b), NULL, 0);
	if (!fits)
		return w->number;
	r->n_captured += w->n;
	items_emit(r, p, w);
	return w->number;
}

static void table_emit(struct snapshot_writer *r, const struct proc *p, struct graph *table, bool is_exec)
{
	struct graph *g, *next;

	HASH_ITER (hh, table, g, next) {
		struct snapshot_graph b = { .handle = g->handle, .is_exec = is_exec, .work = work_emit(r, p, g->work) };

		emit_body(r, p, 0, SNAPSHOT_GRAPH, &b, sizeof(b), NULL, 0);
	}
}

static void numbers_clear(struct proc_own *p)
{
	struct graph *g, *next;

	HASH_ITER (hh, p->graphs, g, next)
		g->work->number = 0;
	HASH_ITER (hh, p->execs, g, next)
		g->work->number = 0;
	for (struct capture *c = p->captures; c; c = c->next)
		c->work->number = 0;
}

void emit_graphs(struct snapshot_writer *r, struct proc_own *p)
{
	numbers_clear(p);
	table_emit(r, &p->p, p->graphs, false);
	table_emit(r, &p->p, p->execs, true);
	for (struct capture *c = p->captures; c; c = c->next) {
		struct snapshot_capture b = { .id = c->id, .work = work_emit(r, &p->p, c->work) };

		emit_body(r, &p->p, c->tid, SNAPSHOT_CAPTURE, &b, sizeof(b), NULL, 0);
	}
}

static struct work *work_of(const struct model *m, uint64_t number)
{
	return number && number <= m->state->n_taken ? m->state->taken[number - 1] : NULL;
}

/* Numbers are given from 1 on, in order. */
int take_work(struct model *m, const struct event *e)
{
	const struct snapshot_work *b = e->snapshot.body;
	struct model_state *st = m->state;
	struct work **grown, *w;

	if (b->work != st->n_taken + 1 || b->work > WORKS_MAX || !b->n_lanes || b->n_lanes > 256)
		return -EINVAL;
	grown = realloc(st->taken, b->work * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	st->taken = grown;
	w = work_new(b->begin_ns);
	if (!w)
		return -ENOMEM;
	while (w->n_lanes < (int)b->n_lanes && lane_new(w) >= 0)
		;
	w->end_ns = b->end_ns;
	w->cut |= b->cut != 0;
	st->taken[st->n_taken++] = w;
	return 0;
}

static bool captured_valid(const struct work *w, const struct snapshot_captured *c)
{
	return c->lane >= 0 && c->lane < w->n_lanes && c->dep_lane >= 0 && c->dep_lane < w->n_lanes &&
	       (unsigned int)c->kind < OP_KIND_MAX && c->dep_n <= w->lane_n[c->dep_lane];
}

int take_captured(struct model *m, const struct event *e)
{
	const struct snapshot_captured_list *b = e->snapshot.body;
	struct work *w = work_of(m, b->work);

	if (!w || b->n > (e->snapshot.bytes - sizeof(*b)) / sizeof(b->items[0]))
		return -EINVAL;
	for (uint64_t i = 0; i < b->n; i++) {
		const struct snapshot_captured *c = &b->items[i];

		if (!captured_valid(w, c))
			return -EINVAL;
		work_add(w, &(struct captured){ .comm = c->comm,
						.kind = c->kind,
						.dtype = c->dtype,
						.redop = redop_decode(c->redop),
						.root = c->root,
						.peer = c->peer,
						.count = c->count,
						.group = c->group,
						.ns = c->ns,
						.lane = c->lane,
						.dep_lane = c->dep_lane,
						.dep_n = c->dep_n });
	}
	return 0;
}

int take_graph(struct model *m, const struct event *e)
{
	const struct snapshot_graph *b = e->snapshot.body;
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);
	struct work *w = work_of(m, b->work);

	if (!p || !w)
		return p ? -EINVAL : -ENOMEM;
	w->refs++;
	return graph_set(b->is_exec ? &p->execs : &p->graphs, b->handle, w);
}

int take_capture(struct model *m, const struct event *e)
{
	const struct snapshot_capture *b = e->snapshot.body;
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);
	struct work *w = work_of(m, b->work);
	struct capture *c, **end;

	if (!p || !w || w->refs > 1) /* of one that goes on nothing else holds the work */
		return p ? -EINVAL : -ENOMEM;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	for (end = &p->captures; *end; end = &(*end)->next)
		;
	w->refs++;
	*c = (struct capture){ .id = b->id, .tid = e->tid, .work = w };
	*end = c;
	return 0;
}
