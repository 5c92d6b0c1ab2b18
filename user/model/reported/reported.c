/* SPDX-License-Identifier: Apache-2.0
 *
 * reported.c - calls of a rank as its host reports them, once a second: where it stands, and no history. They are
 * evidence beside NCCL's counters, which go on to say how far each rank is; what they add is what counters cannot show:
 * which operation a stream stands at and what lies behind it, Send and Recv, arguments, and that a thread waits. No
 * iteration, lag or duration is learnt of them: most operations begin and end between two reports.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/larger.h"
#include "model/state.h"

/* Numbers of Send and Recv hold until the next report, which may have none. */
static void begin(struct proc_own *p, uint64_t ns)
{
	p->p.reported_ns = ns;
	while (p->p.calls)
		call_forget(p, p->p.calls->tid);
	for (struct member *mb = p->p.members; mb; mb = member_next_in_proc(mb))
		mb->p2p_reported = false;
}

static struct member *member_of(const struct proc_own *p, const struct event *e)
{
	struct member_own *own = member_find(p, e->reported.comm);

	return own && !own->m.gone ? &own->m : NULL;
}

static void number_take(struct proc_own *p, const struct event *e)
{
	const struct reported_call *r = &e->reported;
	struct member *mb = member_of(p, e);
	struct p2p_seq *s;

	if (mb && r->peer < 0 && op_kind_counted((enum op_kind)r->kind))
		member_correct(mb, r->seq, e->ts_ns);
	s = mb && r->peer >= 0 ? p2p_get(mb, r->peer) : NULL;
	if (!s)
		return;
	mb->p2p_reported = true;
	s->next[r->kind == OP_RECV] = s->entered[r->kind == OP_RECV] = r->seq;
	s->passed[r->kind == OP_RECV] = r->passed;
}

/* --- operations --- */

static struct op *op_of_member(const struct member *mb, uint64_t id)
{
	for (struct op *op = mb->first_open; op; op = op->next)
		if (op_own(op)->reported_id == id && !op->end_ns)
			return op;
	return NULL;
}

static struct op *op_of_id(const struct proc_own *p, uint64_t id)
{
	struct op *op = NULL;

	for (const struct member *mb = id ? p->p.members : NULL; mb && !op; mb = member_next_in_proc(mb))
		op = mb->gone ? NULL : op_of_member(mb, id);
	return op;
}

/* What is reached has a queue of its own: which of the host's streams that is does not matter here. */
static struct stream *queue_for(struct proc_own *p, const struct event *e)
{
	struct op *front = op_of_id(p, e->reported.behind);
	struct stream *s;
	uint64_t n = 0;

	if (front && op_own(front)->item)
		return op_own(front)->stream;
	for (s = p->p.streams; s && s->head; s = s->next)
		n++;
	return s ? s : stream_get(p, 0x10000 + n, 0); /* no handle that has a meaning of its own */
}

static struct op *op_new(struct member *mb, const struct event *e)
{
	const struct reported_call *r = &e->reported;
	struct op_own *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->reported_id = r->id;
	o->op = (struct op){
		.member = mb,
		.kind = (enum op_kind)r->kind,
		.dtype = r->dtype,
		.redop = r->redop,
		.root = r->root,
		.peer = r->peer,
		.count = r->count,
		.seq = r->seq,
		.seq_from_attach = r->peer >= 0 && !mb->p2p_reported,
		.tid = e->tid,
		.call_ns = r->begin_ns,
		.enqueue_ns = r->begin_ns,
		.arrive_bound_ns = r->begin_ns,
		.start_bound_ns = r->begin_ns,
	};
	o->op.signature = op_signature(&o->op); /* lint: returned by the address of its first member */
	return &o->op;
}

static int op_take(struct model *m, struct proc_own *p, const struct event *e)
{
	struct member *mb = member_of(p, e);
	struct op *op = mb ? op_of_member(mb, e->reported.id) : NULL;
	struct stream *s;

	if (!mb)
		return 0;
	if (!op) {
		op = op_new(mb, e);
		if (!op)
			return -ENOMEM;
		op_link(m, &p->p, op);
		s = queue_for(p, e);
		if (s)
			stream_queue(s, op); /* without memory it is taken as reached */
		ops_bound(m, mb);
	}
	op->not_done_ns = e->ts_ns;
	return 0;
}

/* Of one host the hub knows times to a delay: that an operation was enqueued before its wait began is known without. */
static int wait_take(struct proc_own *p, const struct event *e)
{
	const struct op *op = op_of_id(p, e->reported.id);
	struct call_own *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->c = (struct call){ .tid = e->tid,
			      .is_sync = true,
			      .name = "a wait for the GPU",
			      .kind = op ? SYNC_CONTEXT : SYNC_EVENT,
			      .begin_ns = larger(e->reported.begin_ns, op ? op->enqueue_ns : 0),
			      .next = p->p.calls };
	p->p.calls = &c->c; /* lint: kept by the address of its first member */
	return 0;
}

/* What was not said again is over since the report before, or since then. */
static void rest_ends(struct model *m, struct proc_own *p, uint64_t ns)
{
	for (struct member *mb = p->p.members; mb; mb = member_next_in_proc(mb))
		for (struct op *op = mb->first_open, *next; op; op = next) {
			next = op->next;
			if (op->end_ns || op->not_done_ns >= ns || !op_own(op)->reported_id)
				continue;
			stream_take_out(op);
			op_ended(m, op, ns, 0);
		}
}

int reported_apply(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);

	if (!p)
		return -ENOMEM;
	if (p->p.dead)
		return 0;
	switch (e->reported.what) {
	case REPORTED_BEGIN: begin(p, e->ts_ns); return 0;
	case REPORTED_NUMBER: number_take(p, e); return 0;
	case REPORTED_OP: return op_take(m, p, e);
	case REPORTED_WAIT: return wait_take(p, e);
	case REPORTED_END: rest_ends(m, p, e->ts_ns); return 0;
	default: return -EINVAL;
	}
}
