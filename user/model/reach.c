/* SPDX-License-Identifier: Apache-2.0
 *
 * reach.c - entered is not reached: what is in front of an operation on the streams of its process. Walks back over
 * the queues and the waits between them; for each stream only the furthest position asked for matters, so a walk
 * is linear in what is queued.
 */
#include "model/state.h"

static bool op_open(const struct op *op)
{
	return op && !op->end_ns;
}

/* NCCL starts the operations of a group together. */
static bool op_mates(const struct op *a, const struct op *b)
{
	return op_own((struct op *)a)->group && op_own((struct op *)a)->group == op_own((struct op *)b)->group;
}

static void probe_add(struct stream **list, struct stream *s, uint64_t pos)
{
	if (pos <= s->done_pos || pos <= s->probe_pos)
		return;
	if (!s->probe_pos) {
		s->next_probe = *list;
		*list = s;
	}
	s->probe_pos = pos;
}

static const struct op *older_open(const struct op *best, const struct op *op, const struct op *of)
{
	if (!op_open(op) || op == of || (of && op_mates(op, of)))
		return best;
	return best && best->id <= op->id ? best : op;
}

static const struct op *probe_stream(struct stream **list, struct stream *s, const struct op *best, const struct op *of)
{
	uint64_t from = s->probed_pos, upto = s->probe_pos;

	s->probed_pos = upto;
	for (const struct item *it = s->head; it && it->pos <= upto; it = it->next) {
		if (it->pos <= from)
			continue;
		if (it->dep)
			probe_add(list, it->dep, it->dep_pos);
		best = older_open(best, it->op, of);
	}
	return best;
}

static void probe_end(struct stream *list)
{
	for (struct stream *s = list; s; s = s->next_probe)
		s->probe_pos = s->probed_pos = 0;
}

/* The oldest open operation in front of what `list` asks for, `of` and its group apart. */
static const struct op *probe_run(struct stream *list, const struct op *of)
{
	const struct op *best = NULL;
	struct stream *s = list;

	while (s) {
		if (s->probe_pos > s->probed_pos) {
			best = probe_stream(&list, s, best, of);
			s = list; /* streams found meanwhile are in front */
		} else {
			s = s->next_probe;
		}
	}
	probe_end(list);
	return best;
}

const struct op *op_blocked_by(const struct op *op)
{
	const struct op_own *o = op_own((struct op *)op);
	struct stream *list = NULL;

	if (!o->item || op->end_ns)
		return NULL;
	probe_add(&list, o->stream, o->item->pos);
	return probe_run(list, op);
}

/* What other threads queue behind a wait's back is none of its business. */
static uint64_t pos_before(const struct stream *s, uint64_t ns)
{
	uint64_t pos = s->done_pos;

	for (const struct item *it = s->head; it && it->ns <= ns; it = it->next)
		pos = it->pos;
	return pos;
}

const struct op *call_blocked_by(const struct proc *p, const struct call *c)
{
	const struct call_own *own = (const struct call_own *)c;
	struct stream *list = NULL;

	if (!c->is_sync)
		return NULL;
	if (c->kind == SYNC_EVENT && own->stream)
		probe_add(&list, own->stream, own->pos);
	for (struct stream *s = p->streams; s && c->kind != SYNC_EVENT; s = s->next)
		if (c->kind == SYNC_CONTEXT || s->handle == stream_name(c->handle, c->tid))
			probe_add(&list, s, pos_before(s, c->begin_ns));
	return probe_run(list, NULL);
}

bool op_reached(const struct op *op)
{
	const struct op_own *o = op_own((struct op *)op);
	const struct op *head = o->item ? o->stream->head->op : NULL;

	if (op->end_ns || !op->enqueue_ns)
		return op->end_ns != 0;
	if (op_open(head) && head != op && !op_mates(head, op))
		return false;
	return !op_blocked_by(op);
}

/* The first open operation of a stream, and those of its group behind it. */
static void stream_heads(const struct stream *s, void (*each)(void *arg, const struct op *op), void *arg)
{
	const struct op *first = NULL;

	for (const struct item *it = s->head; it; it = it->next) {
		if (!op_open(it->op))
			continue;
		if (first && !op_mates(first, it->op))
			return;
		if (!first && op_blocked_by(it->op))
			return;
		first = it->op;
		each(arg, it->op);
	}
}

void proc_heads_each(const struct proc *p, void (*each)(void *arg, const struct op *op), void *arg)
{
	for (const struct stream *s = p->streams; s; s = s->next)
		stream_heads(s, each, arg);
}

bool proc_waits(const struct proc *p)
{
	for (const struct call *c = p->calls; c; c = c->next)
		if (c->is_sync)
			return true;
	return false;
}
