/* SPDX-License-Identifier: Apache-2.0
 *
 * perfetto_call.c - API calls of which only the entry is probed. A call was over by the thread's next event: where that
 * comes soon, it is a slice up to there; where not, how much of the time was the call's is not known, and it is an
 * instant. It waits for its operation, so that both ends of the flow between them are written together.
 */
#include "sink/perfetto/perfetto.h"

#include <errno.h>
#include <stdlib.h>

#define CALL_SOON_NS 100000

const char NCCL_CATEGORY[] = "nccl", CALL_END_BOUND[] = "at the latest: the thread's next event";

int call_add(struct perfetto_sink *p, struct thread *t, const struct event *e)
{
	struct call_key key = { .tid = e->tid, .node = e->node, .ts_ns = e->ts_ns };
	struct pending_call *c;

	HASH_FIND(hh, p->calls, &key, sizeof(key), c);
	if (c)
		return 0;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->key = key;
	c->track = thread_track(p, t);
	c->thread = t;
	c->op = e->op.op;
	HASH_ADD(hh, p->calls, key, sizeof(c->key), c);
	call_let_go(t);
	t->last_call = c;
	return 0;
}

void call_let_go(struct thread *t)
{
	if (t->last_call)
		t->last_call->thread = NULL;
	t->last_call = NULL;
}

void call_bound(struct thread *t, uint64_t ts_ns)
{
	struct pending_call *c = t->last_call;

	call_let_go(t);
	if (c)
		c->next_ns = ts_ns;
}

uint64_t call_end_ns(uint64_t begin_ns, uint64_t next_ns)
{
	/* one ns apart: on one track, the file's order distinguishes an end and a begin of the same time */
	return next_ns > begin_ns && next_ns - begin_ns <= CALL_SOON_NS ? next_ns - 1 : 0;
}

struct pending_call *call_of(struct perfetto_sink *p, const struct op *op)
{
	struct call_key key = { .tid = op->tid, .node = op->member->proc->key >> 32, .ts_ns = op->call_ns };
	struct pending_call *c;

	HASH_FIND(hh, p->calls, &key, sizeof(key), c);
	return c;
}

void call_free(struct perfetto_sink *p, struct pending_call *c)
{
	if (c->thread)
		call_let_go(c->thread);
	HASH_DEL(p->calls, c);
	free(c);
}

void call_draw(struct perfetto_sink *p, uint64_t track, enum op_kind op, uint64_t begin_ns, uint64_t next_ns,
	       uint64_t flow, bool captured)
{
	uint64_t end_ns = call_end_ns(begin_ns, next_ns);
	struct trace_file *f = &p->file;

	event_open(f, end_ns ? TYPE_SLICE_BEGIN : TYPE_INSTANT, track, begin_ns, NCCL_CATEGORY, p->call_names[op]);
	if (end_ns)
		event_interned(f, "end", CALL_END_BOUND);
	else if (next_ns > begin_ns)
		event_u64(f, "returned_within_us", (next_ns - begin_ns + 999) / 1000);
	if (captured)
		event_bool(f, "captured", true);
	if (flow)
		event_flow(f, flow, false);
	event_close(f);
	if (end_ns)
		slice_end(f, track, end_ns);
}

void captured_draw(struct perfetto_sink *p, const struct op *op, const struct model *m)
{
	struct pending_call *c = call_of(p, op);

	if (!c)
		return;
	call_draw(p, thread_track_uuid(p, m, c->track), c->op, c->key.ts_ns, c->next_ns, 0, true);
	call_free(p, c);
}

void calls_left_draw(struct perfetto_sink *p, const struct model *m)
{
	struct pending_call *c, *next;

	HASH_ITER (hh, p->calls, c, next) {
		call_draw(p, thread_track_uuid(p, m, c->track), c->op, c->key.ts_ns, c->next_ns, 0, false);
		call_free(p, c);
	}
}

void calls_free(struct perfetto_sink *p)
{
	struct pending_call *c, *next;

	HASH_ITER (hh, p->calls, c, next)
		call_free(p, c);
}
