/* SPDX-License-Identifier: Apache-2.0
 *
 * perfetto_call.c - API calls of which only the entry is probed, as slices of their thread. A call waits for its
 * operation, so that both ends of the flow between them are written together.
 */
#include "sink/perfetto/perfetto.h"

#include <errno.h>
#include <stdlib.h>

#define CALL_NS 10000    /* drawn length of a call: only its entry is probed */
#define CAPTURED_NS 1000 /* the same, for a call that is drawn before the thread's next */

const char NCCL_CATEGORY[] = "nccl";

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
	c->end_ns = e->ts_ns + CALL_NS;
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
	/* one ns apart: on one track, the file's order distinguishes an end and a begin of the same time */
	if (c && ts_ns <= c->end_ns)
		c->end_ns = ts_ns > c->key.ts_ns ? ts_ns - 1 : c->key.ts_ns;
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

void call_draw(struct perfetto_sink *p, uint64_t track, enum op_kind op, uint64_t begin_ns, uint64_t end_ns,
	       uint64_t flow, bool captured)
{
	struct trace_file *f = &p->file;

	event_open(f, TYPE_SLICE_BEGIN, track, begin_ns, NCCL_CATEGORY, p->call_names[op]);
	event_bool(f, "end_measured", false);
	if (captured)
		event_bool(f, "captured", true);
	if (flow)
		event_flow(f, flow, false);
	event_close(f);
	slice_end(f, track, end_ns);
}

void captured_draw(struct perfetto_sink *p, const struct op *op, const struct model *m)
{
	struct pending_call *c = call_of(p, op);

	if (!c)
		return;
	call_draw(p, thread_track_uuid(p, m, c->track), c->op, c->key.ts_ns, c->key.ts_ns + CAPTURED_NS, 0, true);
	call_free(p, c);
}

void calls_left_draw(struct perfetto_sink *p, const struct model *m)
{
	struct pending_call *c, *next;

	HASH_ITER (hh, p->calls, c, next) {
		call_draw(p, thread_track_uuid(p, m, c->track), c->op, c->key.ts_ns, c->end_ns, 0, false);
		call_free(p, c);
	}
}

void calls_free(struct perfetto_sink *p)
{
	struct pending_call *c, *next;

	HASH_ITER (hh, p->calls, c, next)
		call_free(p, c);
}
