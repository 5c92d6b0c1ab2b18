/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot_op.c - operations of a snapshot, in the order of their ids: of every process its newest, as far back as its
 * iterations need, and of every communicator the open ones and the last.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/larger.h"
#include "model/snapshot/snapshot_private.h"

#define NEWEST_MIN 256
#define NEWEST_MAX 2048
#define PERIODS 4
#define OPEN_MAX 256 /* of a member: as many as detectors look at */

struct kept {
	struct op **ops;
	size_t n, cap;
};

static int kept_add(struct kept *t, struct op *op)
{
	size_t cap = t->cap ? 2 * t->cap : 1024;
	struct op **grown;

	if (t->n == t->cap) {
		grown = realloc(t->ops, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		t->ops = grown;
		t->cap = cap;
	}
	t->ops[t->n++] = op;
	return 0;
}

static size_t newest_wanted(const struct proc_own *p)
{
	size_t n = PERIODS * p->clock.steps.period_ops;

	for (const struct rank_clock *c = p->p.rank_clocks; c; c = c->next)
		n += PERIODS * c->clock.steps.period_ops;
	return smaller(larger(n, NEWEST_MIN), NEWEST_MAX);
}

static int ops_choose(struct kept *t, const struct proc_own *p)
{
	size_t n = newest_wanted(p);
	int err = 0, open;

	for (struct op *op = p->p.last_op; op && n-- && !err; op = op->prev_in_proc)
		err = op->member->gone ? 0 : kept_add(t, op);
	for (const struct member *mb = p->p.members; mb && !err; mb = member_next_in_proc(mb)) {
		open = 0;
		for (struct op *op = mb->ops_tail; op && !mb->gone && !err && open < OPEN_MAX; op = op->prev) {
			if (op != mb->ops_tail && op->end_ns)
				continue;
			open += !op->end_ns;
			err = kept_add(t, op);
			if (op == mb->first_open || !mb->first_open)
				break;
		}
	}
	return err;
}

static int op_by_id(const void *a, const void *b)
{
	uint64_t x = (*(struct op *const *)a)->id, y = (*(struct op *const *)b)->id;

	return x < y ? -1 : x > y;
}

static void op_emit(struct snapshot_writer *r, const struct op *op)
{
	const struct op_own *own = op_own((struct op *)op);
	struct snapshot_op b = {
		.addr = op->member->addr,
		.id = op->id,
		.count = op->count,
		.seq = op->seq,
		.stream = op->stream,
		.call_ns = op->call_ns,
		.enqueue_ns = op->enqueue_ns,
		.start_bound_ns = op->start_bound_ns,
		.end_ns = op->end_ns,
		.end_error_ns = op->end_error_ns,
		.stream_pos = op->stream_pos,
		.nth = op->nth,
		.arrive_bound_ns = op->arrive_bound_ns,
		.not_done_ns = op->not_done_ns,
		.seq_checked_ns = op->seq_checked_ns,
		.graph_exec = op->graph_exec,
		.gpu_ns = op->gpu_ns,
		.sync_ns = op->sync_ns,
		.group = own->group,
		.kind = op->kind,
		.dtype = op->dtype,
		.redop = op->redop,
		.root = op->root,
		.peer = op->peer,
		.graph_i = op->graph_i,
		.graph_n = op->graph_n,
		.flags = (op->seq_from_attach ? SNAPSHOT_OP_FROM_ATTACH : 0) | (op->grouped ? SNAPSHOT_OP_GROUPED : 0) |
			 (op->enqueue_ns ? 0 : SNAPSHOT_OP_PENDING) | (own->queued_out ? SNAPSHOT_OP_QUEUED_OUT : 0) |
			 (comm_entry_complete(op) ? SNAPSHOT_OP_COMPLETE : 0) |
			 (op->in_process_group ? SNAPSHOT_OP_IN_PROCESS_GROUP : 0),
		.process_group_seq = op->process_group_seq,
	};

	emit_body(r, op->member->proc, op->tid, SNAPSHOT_OP, &b, sizeof(b), NULL, 0);
}

void emit_ops(struct snapshot_writer *r)
{
	struct kept t = { 0 };

	for (struct proc *p = r->m->procs; p && !r->err; p = proc_next(p))
		if (proc_own(p)->hashed)
			r->err = ops_choose(&t, proc_own(p));
	if (t.n)
		qsort(t.ops, t.n, sizeof(*t.ops), op_by_id);
	for (size_t i = 0; i < t.n; i++)
		if (!i || t.ops[i] != t.ops[i - 1])
			op_emit(r, t.ops[i]);
	free(t.ops);
}

static struct op *op_of(const struct snapshot_op *b, struct member *mb, uint32_t tid)
{
	struct op_own *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->op = (struct op){
		.member = mb,
		.kind = b->kind,
		.dtype = b->dtype,
		.redop = redop_decode(b->redop),
		.root = b->root,
		.peer = b->peer,
		.count = b->count,
		.seq = b->seq,
		.seq_from_attach = b->flags & SNAPSHOT_OP_FROM_ATTACH,
		.tid = tid,
		.stream = b->stream,
		.call_ns = b->call_ns,
		.enqueue_ns = b->enqueue_ns,
		.start_bound_ns = b->start_bound_ns,
		.end_ns = b->end_ns,
		.end_error_ns = b->end_error_ns,
		.stream_pos = b->stream_pos,
		.grouped = b->flags & SNAPSHOT_OP_GROUPED,
		.arrive_bound_ns = b->arrive_bound_ns,
		.not_done_ns = b->not_done_ns,
		.seq_checked_ns = b->seq_checked_ns,
		.graph_exec = b->graph_exec,
		.gpu_ns = b->gpu_ns,
		.sync_ns = b->sync_ns,
		.graph_i = b->graph_i,
		.graph_n = b->graph_n,
	};
	o->op.signature = op_signature(&o->op);
	o->group = b->group; /* lint: returned by the address of its first member */
	return &o->op;
}

/* op_link() numbers what is called; one of a snapshot has its numbers. */
static void op_link_kept(struct model *m, struct proc *p, struct op *op, const struct snapshot_op *b)
{
	uint64_t n_ops = m->n_ops, proc_ops = p->n_ops, next_id = m->state->next_op_id;

	op_link(m, p, op);
	m->n_ops = larger(n_ops, 1);
	m->state->next_op_id = larger(next_id, b->id);
	p->n_ops = larger(proc_ops, b->nth + 1);
	op->id = b->id;
	op->nth = b->nth;
}

int take_op(struct model *m, const struct event *e)
{
	const struct snapshot_op *b = e->snapshot.body;
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);
	struct member_own *own = p ? member_find(p, b->addr) : NULL;
	struct task_own *t;
	struct op *op;

	if (!own || own->m.gone || (unsigned int)b->kind >= OP_KIND_MAX ||
	    (p->p.last_op && p->p.last_op->id >= b->id) || b->nth > 1ull << 62)
		return -EINVAL;
	op = op_of(b, &own->m, e->tid);
	if (!op)
		return -ENOMEM;
	if (e->snapshot.bytes >= sizeof(*b)) {
		op->process_group_seq = b->process_group_seq;
		op->in_process_group = b->flags & SNAPSHOT_OP_IN_PROCESS_GROUP;
	}
	op_link_kept(m, &p->p, op, b);
	if (b->flags & SNAPSHOT_OP_QUEUED_OUT) /* reported before */
		op->handed_out = op_own(op)->queued_out = true;
	comm_entry_taken(op, b->flags & SNAPSHOT_OP_COMPLETE);
	if (op->enqueue_ns)
		return 0;
	t = p->p.dead ? NULL : task_get(p, e->tid);
	if (t && !op_hold(t, op))
		return 0;
	op->enqueue_ns = e->ts_ns; /* never to be flushed: taken as called now */
	return 0;
}
