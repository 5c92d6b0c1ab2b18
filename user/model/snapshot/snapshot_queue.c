/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot_queue.c - streams of a snapshot with what is queued on them, CUDA events, and the driver calls that host
 * threads sit in. Positions are written as they are: an end is inferred from them.
 */
#include <errno.h>
#include <stdlib.h>

#include "model/snapshot/snapshot_private.h"

#define CUDA_EVENTS_KEPT 512 /* the newest of each process, and those that are not done */
#define ITEMS_KEPT 4096      /* the newest of each stream */

struct place {
	uint64_t handle;
	int lane;
};

/* A branch has its launch stream's handle. */
static struct place place_of(const struct proc_own *p, const struct stream *s)
{
	struct place at = { s->handle, 0 };
	struct stream *owner;

	HASH_FIND(hh, p->streams, &s->handle, sizeof(s->handle), owner);
	for (int i = 1; owner && owner != s && i < owner->n_lanes; i++)
		if (owner->lanes[i] == s)
			at.lane = i;
	return at;
}

struct stream *snapshot_stream_of(struct proc_own *p, uint64_t handle, int lane)
{
	struct stream *s;

	HASH_FIND(hh, p->streams, &handle, sizeof(handle), s);
	if (!s || lane < 0 || (lane && lane >= s->n_lanes))
		return NULL;
	return lane ? s->lanes[lane] : s;
}

static void stream_emit(struct snapshot_writer *r, const struct proc *p, const struct stream *s, int lane)
{
	struct snapshot_stream b = {
		.handle = s->handle,
		.pos = s->pos,
		.done_pos = s->done_pos,
		.lower_ns = s->lower_ns,
		.polled_pos = s->polled_pos,
		.polled_ns = s->polled_ns,
		.capture_id = s->capture ? s->capture->id : 0,
		.lane = lane,
		.captured_lane = s->capture ? s->lane : 0,
	};

	emit_body(r, p, 0, SNAPSHOT_STREAM, &b, sizeof(b), NULL, 0);
}

/* The table is in order of creation. */
void emit_streams(struct snapshot_writer *r, const struct proc_own *p)
{
	struct stream *s, *next;

	HASH_ITER (hh, p->streams, s, next) {
		stream_emit(r, &p->p, s, 0);
		for (int i = 1; i < s->n_lanes; i++)
			stream_emit(r, &p->p, s->lanes[i], i);
	}
}

static void queue_emit(struct snapshot_writer *r, const struct proc_own *p, const struct stream *s)
{
	struct place at = place_of(p, s), dep;
	size_t skip = s->n_items > ITEMS_KEPT ? s->n_items - ITEMS_KEPT : 0;

	for (const struct item *it = s->head; it; it = it->next) {
		struct snapshot_item b = { .stream = at.handle,
					   .lane = at.lane,
					   .pos = it->pos,
					   .ns = it->ns,
					   .op_id = it->op ? it->op->id : 0,
					   .has_dep = it->dep != NULL };

		if (skip && skip--)
			continue;
		if (it->dep) {
			dep = place_of(p, it->dep);
			b.dep = dep.handle;
			b.dep_lane = dep.lane;
			b.dep_pos = it->dep_pos;
		}
		emit_body(r, &p->p, it->tid, SNAPSHOT_ITEM, &b, sizeof(b), NULL, 0);
	}
}

static void cuda_events_emit(struct snapshot_writer *r, const struct proc_own *p)
{
	size_t old = HASH_COUNT(p->cuda_events) > CUDA_EVENTS_KEPT ? HASH_COUNT(p->cuda_events) - CUDA_EVENTS_KEPT : 0;
	struct cuda_event *k, *next;

	HASH_ITER (hh, p->cuda_events, k, next) {
		struct place at = place_of(p, k->stream);
		struct snapshot_cuda_event b = {
			.handle = k->handle,
			.stream = at.handle,
			.stream_lane = at.lane,
			.pos = k->pos,
			.capture_id = k->capture_id,
			.lane_n = k->lane_n,
			.ns = k->ns,
			.n_ops = k->n_ops,
			.op_id = k->op_id,
			.tight_pos = k->tight_pos,
			.lane = k->lane,
		};

		if (old && old-- && !k->capture_id && k->pos <= k->stream->done_pos)
			continue;
		emit_body(r, &p->p, 0, SNAPSHOT_CUDA_EVENT, &b, sizeof(b), NULL, 0);
	}
}

static void call_emit(struct snapshot_writer *r, const struct proc_own *p, const struct call *c)
{
	const struct call_own *own = (const struct call_own *)c;
	struct place at = own->stream ? place_of(p, own->stream) : (struct place){ 0 };
	struct snapshot_call b = {
		.handle = c->handle,
		.begin_ns = c->begin_ns,
		.stream = at.handle,
		.lane = at.lane,
		.pos = own->pos,
		.is_sync = c->is_sync,
		.kind = c->kind,
		.has_stream = own->stream != NULL,
	};

	emit_body(r, &p->p, c->tid, SNAPSHOT_CALL, &b, sizeof(b), &c->name, 1);
}

void emit_items(struct snapshot_writer *r, const struct proc_own *p)
{
	const struct call *at;

	for (const struct stream *s = p->p.streams; s; s = s->next)
		queue_emit(r, p, s);
	cuda_events_emit(r, p);
	for (const struct call *upto = NULL; upto != p->p.calls; upto = at) {
		for (at = p->p.calls; at->next != upto; at = at->next)
			;
		call_emit(r, p, at);
	}
}

static struct capture *capture_of(struct proc_own *p, uint64_t id)
{
	struct capture *c = p->captures;

	while (c && c->id != id)
		c = c->next;
	return c;
}

int take_stream(struct model *m, const struct event *e)
{
	const struct snapshot_stream *b = e->snapshot.body;
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);
	struct stream *s = p ? stream_get(p, b->handle, e->tid) : NULL;

	if (!s || b->lane < 0 || b->lane > 256)
		return -EINVAL;
	s = stream_lane(p, s, b->lane);
	if (!s || s->head || b->done_pos > b->pos)
		return -EINVAL;
	s->pos = b->pos;
	s->done_pos = s->target = b->done_pos;
	s->lower_ns = b->lower_ns;
	s->polled_pos = b->polled_pos;
	s->polled_ns = b->polled_ns;
	s->capture = b->capture_id ? capture_of(p, b->capture_id) : NULL;
	if (s->capture && (b->captured_lane < 0 || b->captured_lane >= s->capture->work->n_lanes))
		s->capture = NULL;
	s->lane = s->capture ? b->captured_lane : 0;
	return 0;
}

static struct op *op_by_id(const struct proc_own *p, uint64_t id)
{
	struct op *op = id ? p->p.last_op : NULL;

	while (op && op->id != id)
		op = op->prev_in_proc;
	return op;
}

int take_item(struct model *m, const struct event *e)
{
	const struct snapshot_item *b = e->snapshot.body;
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);
	struct stream *s = p ? snapshot_stream_of(p, b->stream, b->lane) : NULL;
	struct stream *dep = p && b->has_dep ? snapshot_stream_of(p, b->dep, b->dep_lane) : NULL;
	uint64_t pos = s ? s->pos : 0;
	struct item *it;
	struct op *op;

	if (!s || b->pos > pos || b->pos <= s->done_pos || (s->tail && b->pos <= s->tail->pos))
		return -EINVAL;
	it = item_push(s, e->tid, b->ns);
	s->pos = pos;
	if (!it)
		return -ENOMEM;
	it->pos = b->pos;
	it->dep = dep && dep != s && b->dep_pos <= dep->pos ? dep : NULL;
	it->dep_pos = it->dep ? b->dep_pos : 0;
	op = op_by_id(p, b->op_id);
	if (!op || op->end_ns || op_own(op)->item || !op->enqueue_ns)
		return 0;
	it->op = op;
	op->stream_pos = it->pos;
	op_own(op)->item = it;
	op_own(op)->stream = s;
	return 0;
}

int take_cuda_event(struct model *m, const struct event *e)
{
	const struct snapshot_cuda_event *b = e->snapshot.body;
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);
	struct stream *s = p ? snapshot_stream_of(p, b->stream, b->stream_lane) : NULL;
	struct cuda_event *k;

	if (!s || b->pos > s->pos)
		return -EINVAL;
	k = cuda_event_renew(p, b->handle);
	if (!k)
		return -ENOMEM;
	k->stream = s;
	k->pos = b->pos;
	k->capture_id = b->capture_id;
	k->lane = b->lane;
	k->lane_n = b->lane_n;
	k->ns = b->ns;
	k->n_ops = b->n_ops;
	k->op_id = b->op_id;
	k->tight_pos = b->tight_pos;
	return 0;
}

int take_call(struct model *m, const struct event *e)
{
	const struct snapshot_call *b = e->snapshot.body;
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);
	struct stream *s = p && b->has_stream ? snapshot_stream_of(p, b->stream, b->lane) : NULL;
	struct call_own *c;

	if (b->kind > SYNC_COPY || (s && b->pos > s->pos))
		return -EINVAL;
	c = p ? calloc(1, sizeof(*c)) : NULL;
	if (!c)
		return -ENOMEM;
	call_forget(p, e->tid);
	c->c = (struct call){ .tid = e->tid,
			      .is_sync = b->is_sync,
			      .kind = b->kind,
			      .handle = b->handle,
			      .begin_ns = b->begin_ns,
			      .name = e->snapshot.text[0],
			      .next = p->p.calls };
	c->stream = s;
	c->pos = b->pos;
	p->p.calls = &c->c; /* lint: kept by the address of its first member */
	return 0;
}
