/* SPDX-License-Identifier: Apache-2.0
 *
 * op.c - operations: their sequence numbers, the groups that hold them back, their lists, and the queue in which
 * they are handed out once their end is known. NCCL enqueues a group at its outermost GroupEnd, and counts then.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/larger.h"
#include "model/state.h"

#define PENDING_MAX 65536 /* a group that never ends is taken as ended */

int op_space(const struct op *op)
{
	switch (op->kind) {
	case OP_ALLTOALL: return SEQ_ALLTOALL;
	case OP_GATHER: return SEQ_GATHER;
	case OP_SCATTER: return SEQ_SCATTER;
	default:
		if (!op_kind_counted(op->kind))
			return -1;
		return op->graph_exec ? SEQ_GRAPH : SEQ_COLL;
	}
}

uint64_t op_duration_ns(const struct op *op)
{
	return op->end_ns > op->enqueue_ns && op->enqueue_ns ? op->end_ns - op->enqueue_ns : 0;
}

/* NCCL returns at once for an empty collective: it takes no number. */
static bool op_numbered(const struct op *op)
{
	return op->count || op_kind_p2p(op->kind);
}

static const struct op *op_down(const struct op *op, int space, uint64_t seq)
{
	for (; op; op = op->prev)
		if (op->seq <= seq && op_space(op) == space && op_numbered(op)) /* first what most are not */
			return op->seq == seq ? op : NULL;
	return NULL;
}

/* `op` is of SEQ_COLL and not behind seq. */
static const struct op *op_up(const struct op *op, uint64_t seq)
{
	const struct op *last = op;

	for (; op; op = op->next) {
		if (op_space(op) != SEQ_COLL || !op_numbered(op))
			continue;
		if (op->seq > seq)
			break;
		last = op;
	}
	return last->seq == seq ? last : NULL;
}

/* Detectors ask for one after the other: most are next to what was asked for last. */
const struct op *member_op(const struct member *mb, int space, uint64_t seq)
{
	const struct op *from = space == SEQ_COLL ? mb->asked : NULL, *op;

	if (from && from->seq <= seq && seq < mb->next_seq[space] && seq - from->seq < mb->next_seq[space] - seq)
		op = op_up(from, seq);
	else
		op = op_down(from && from->seq > seq ? from : mb->ops_tail, space, seq);
	if (op && space == SEQ_COLL)
		((struct member *)mb)->asked = (struct op *)op;
	return op;
}

const struct op *member_p2p_op(const struct member *mb, enum op_kind kind, int peer, uint64_t seq)
{
	for (const struct op *op = mb->ops_tail; op; op = op->prev) {
		if (op->kind != kind || op->peer != peer)
			continue;
		if (op->seq <= seq)
			return op->seq == seq ? op : NULL;
	}
	return NULL;
}

/* --- handing out --- */

void op_out(struct model *m, struct op *op)
{
	struct op_own *o = op_own(op);
	struct model_state *st = m->state;

	if (o->queued_out)
		return;
	o->queued_out = true;
	o->next_out = NULL;
	if (st->out_tail)
		st->out_tail->next_out = o;
	else
		st->out_head = o;
	st->out_tail = o;
}

const struct op *model_next_ended(struct model *m)
{
	struct model_state *st = m->state;
	struct op_own *o = st->out_head;

	if (!o)
		return NULL;
	st->out_head = o->next_out;
	if (!st->out_head)
		st->out_tail = NULL;
	o->op.handed_out = true;
	o->next_out = NULL;
	if (o->dropped) { /* the reader may look at it until the next event */
		o->next_out = st->given;
		st->given = o;
	}
	return &o->op;
}

static void op_unlink(struct op *op)
{
	struct member *mb = op->member;
	struct proc *p = mb->proc;

	*(op->prev ? &op->prev->next : &mb->ops) = op->next;
	*(op->next ? &op->next->prev : &mb->ops_tail) = op->prev;
	*(op->next_in_proc ? &op->next_in_proc->prev_in_proc : &p->last_op) = op->prev_in_proc;
	if (op->prev_in_proc)
		op->prev_in_proc->next_in_proc = op->next_in_proc;
	mb->n_ops--;
	if (mb->asked == op)
		mb->asked = NULL;
}

static void first_open_advance(struct member *mb)
{
	while (mb->first_open && (mb->first_open->end_ns || !op_numbered(mb->first_open)))
		mb->first_open = mb->first_open->next;
}

void op_drop(struct model *m, struct op *op)
{
	struct op_own *o = op_own(op);

	if (op->member->first_open == op) {
		op->member->first_open = op->next;
		first_open_advance(op->member);
	}
	op_unlink(op);
	if (o->item)
		o->item->op = NULL;
	o->item = NULL;
	if (op->handed_out) {
		free(o);
		return;
	}
	o->dropped = true;
	op_out(m, op);
}

static void p2p_learn(const struct op *op)
{
	const struct member *mb = op->member, *o;
	struct p2p_seq *mine = op->peer >= 0 && op->peer < mb->n_p2p ? &mb->p2p[op->peer] : NULL;
	int64_t ahead;

	if (op->kind != OP_RECV || !op->seq_from_attach || mb->blind || !mine || !mb->comm->by_rank ||
	    op->peer >= mb->comm->nranks)
		return;
	o = mb->comm->by_rank[op->peer];
	if (!o || o->gone || o->blind || mb->rank < 0 || mb->rank >= o->n_p2p)
		return;
	ahead = (int64_t)o->p2p[mb->rank].next[0] - (int64_t)(op->seq + 1);
	if (!mine->ahead_known || ahead < mine->ahead)
		mine->ahead = ahead;
	mine->ahead_known = true;
}

void op_ended(struct model *m, struct op *op, uint64_t ns, uint64_t prev_lower_ns)
{
	uint64_t lower, entry = comm_last_entry_ns(op);

	if (op->end_ns)
		return;
	op->end_ns = larger(ns, op->enqueue_ns);
	if (entry > op->end_ns) /* numbers do not match: no bound */
		entry = 0;
	op->arrive_bound_ns = larger(op->enqueue_ns, prev_lower_ns);
	op->start_bound_ns = larger(op->arrive_bound_ns, entry);
	lower = larger(op->start_bound_ns, op->not_done_ns);
	op->end_error_ns = op->end_ns - smaller(lower, op->end_ns);
	m->n_ops_ended++;
	comm_ended(op);
	comm_contradicted(op);
	p2p_learn(op);
	first_open_advance(op->member);
	op_out(m, op);
}

/* --- calling and entering --- */

uint64_t op_signature(const struct op *op)
{
	uint64_t h = hash_mix(hash_mix(1, op->kind), op->count);

	return hash_mix(hash_mix(hash_mix(h, (uint64_t)op->dtype), (uint64_t)op->redop), (uint64_t)op->root);
}

struct p2p_seq *p2p_get(struct member *mb, int peer)
{
	struct p2p_seq *all;
	int n = fmax(peer + 1, mb->comm->nranks);

	if (peer < 0 || (mb->comm->nranks > 0 && peer >= mb->comm->nranks) || n > 1 << 20)
		return NULL;
	if (peer < mb->n_p2p)
		return &mb->p2p[peer];
	all = realloc(mb->p2p, n * sizeof(*all));
	if (!all)
		return NULL;
	for (int i = mb->n_p2p; i < n; i++)
		all[i] = (struct p2p_seq){ 0 };
	mb->p2p = all;
	mb->n_p2p = n;
	return &all[peer]; /* lint: they are the member's */
}

static void op_number(struct op *op)
{
	struct member *mb = op->member;
	int space = op_space(op);
	struct p2p_seq *pp;

	if (space >= 0) {
		op->seq = mb->next_seq[space];
		mb->next_seq[space] += op_numbered(op);
		op->seq_from_attach =
			!member_comparable(mb, space) || (space == SEQ_COLL && !mb->from_init && mb->comm->nranks == 1);
		return;
	}
	op->seq_from_attach = !member_comparable(mb, space);
	pp = p2p_get(mb, op->peer);
	if (pp) {
		op->seq = pp->next[op->kind == OP_RECV];
		pp->next[op->kind == OP_RECV] += op_numbered(op);
	}
}

/* `s`: where it is queued, NULL when that is not known. */
void op_enter(struct model *m, struct op *op, struct stream *s, uint64_t ns)
{
	struct member *mb = op->member;
	int space = op_space(op);

	op->enqueue_ns = op->arrive_bound_ns = op->start_bound_ns = ns;
	if (!op_numbered(op)) {
		op->end_ns = ns;
		op_out(m, op);
		return;
	}
	if (space >= 0)
		mb->entered_seq[space] = larger(mb->entered_seq[space], op->seq + 1);
	else if (op->peer >= 0 && op->peer < mb->n_p2p)
		mb->p2p[op->peer].entered[op->kind == OP_RECV] = op->seq + 1;
	comm_entered(m, op);
	if (s)
		stream_queue(s, op); /* without memory its end stays unknown */
}

void group_flush(struct model *m, struct proc_own *p, struct task_own *t, uint64_t ns)
{
	size_t n = t->n_pending;
	uint64_t group = ++m->state->next_group; /* one alone has a group, too: no other is in it */

	t->n_pending = 0;
	for (size_t i = 0; i < n; i++) {
		struct op *op = t->pending[i];

		op->member->n_pending--;
		op_own(op)->group = group;
		op_enter(m, op, stream_get(p, op->stream, op->tid), ns);
	}
}

int op_hold(struct task_own *t, struct op *op)
{
	size_t cap = t->cap_pending ? 2 * t->cap_pending : 16;
	struct op **grown;

	if (t->n_pending == t->cap_pending) {
		grown = realloc(t->pending, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		t->pending = grown;
		t->cap_pending = cap;
	}
	t->pending[t->n_pending++] = op;
	op->member->n_pending++;
	return 0;
}

/* One thread that drives several GPUs calls in an order that repeats; of several threads only each for itself does. */
static void threads_note(struct proc *p, const struct op *op)
{
	const struct op *last = p->last_op;

	p->by_threads |= p->shared && last && last->tid != op->tid && last->member->device != op->member->device;
}

void op_link(struct model *m, struct proc *p, struct op *op)
{
	struct member *mb = op->member;

	threads_note(p, op);

	op->prev = mb->ops_tail;
	*(mb->ops_tail ? &mb->ops_tail->next : &mb->ops) = op;
	mb->ops_tail = op;
	mb->n_ops++;
	op->prev_in_proc = p->last_op;
	if (p->last_op)
		p->last_op->next_in_proc = op;
	p->last_op = op;
	op->nth = p->n_ops++;
	clock_count(p, op);
	op->id = ++m->state->next_op_id;
	m->n_ops++;
	mb->n_called[op->kind]++;
	mb->comm->n_called++;
	if (!mb->first_open)
		mb->first_open = op;
	first_open_advance(mb);
}

static struct op *op_new(struct member *mb, const struct event *e)
{
	struct op_own *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->op = (struct op){
		.member = mb,
		.kind = e->op.op,
		.dtype = e->op.dtype,
		.redop = e->op.redop,
		.root = e->op.root,
		.peer = e->op.peer,
		.count = e->op.count,
		.tid = e->tid,
		.stream = e->op.stream,
		.call_ns = e->ts_ns,
		.seq_checked_ns = mb->checked_ns,
		.sync_ns = mb->proc->last_sync_ns,
		.grouped = e->op.group_depth > 0,
	};
	o->op.signature = op_signature(&o->op); /* lint: returned by the address of its first member */
	return &o->op;
}

/* What a process keeps is its newest operations, one behind the other (the iteration clock reads them so); of every
 * communicator the last one stays whatever its age, for that is what a hang is about. */
void ops_bound(struct model *m, struct member *mb)
{
	const struct proc *p = mb->proc;
	uint64_t kept = p->dead ? MODEL_OPS_DEAD : m->state->ops_kept;

	/* lint: op_drop() unlinks it */
	while (mb->n_ops > 1 && mb->ops->enqueue_ns && (mb->n_ops > MODEL_OPS_KEPT || mb->ops->nth + kept < p->n_ops))
		op_drop(m, mb->ops);
}

void ops_tick(struct model *m)
{
	uint64_t n = 0, each;

	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p))
		n += p->last_op && !p->dead;
	each = MODEL_OPS_ALL / (n ? n : 1);
	m->state->ops_kept = larger(smaller(each, 2 * MODEL_OPS_KEPT), MODEL_OPS_MIN);
	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p))
		for (struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
			if (mb->n_ops > 1)
				ops_bound(m, mb);
}

/* It is reported once, and nothing keeps it: what counts is the graph's work. */
static void op_captured(struct model *m, struct stream *s, struct task_own *t, struct op *op)
{
	op->captured = true;
	op->id = ++m->state->next_op_id;
	if (op->count || op_kind_p2p(op->kind))
		capture_op(s->capture, s->lane, op, op->grouped ? hash_mix(t->group_begin_ns, op->tid) : 0);
	op_own(op)->dropped = true;
	op_out(m, op);
}

struct op *op_launched(struct model *m, struct proc_own *p, const struct captured *c, const struct event *e)
{
	struct member_own *mb = member_find(p, c->comm);
	struct op_own *o;

	if (!mb || mb->m.gone || mb->born_ns > c->ns)
		return NULL;
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	o->op = (struct op){
		.member = &mb->m,
		.kind = c->kind,
		.dtype = c->dtype,
		.redop = c->redop,
		.root = c->root,
		.peer = c->peer,
		.count = c->count,
		.tid = e->tid,
		.stream = e->capture.stream,
		.call_ns = e->ts_ns,
		.seq_checked_ns = mb->m.checked_ns,
		.grouped = c->group != 0,
		.graph_exec = e->capture.exec,
	};
	mb->m.last_call_ns = e->ts_ns;
	o->op.signature = op_signature(&o->op);
	op_number(&o->op);
	op_link(m, &p->p, &o->op);
	ops_bound(m, &mb->m);
	return &o->op;
}

static int op_called(struct model *m, struct proc_own *p, struct task_own *t, const struct event *e)
{
	struct member_own *mb;
	struct stream *s;
	struct op *op;
	int err = member_get(m, p, e->op.addr, e->ts_ns, &mb);

	if (!mb)
		return err;
	s = stream_get(p, e->op.stream, e->tid);
	if (m->comm_inits)
		comm_init_used(m, p, e->op.addr, 0, e->ts_ns);
	if (e->op.counters_valid) /* in a group they confirm what came before it, and no more */
		member_correct(&mb->m, e->op.counters_sum, e->op.group_depth > 0 ? t->group_begin_ns : e->ts_ns);
	op = op_new(&mb->m, e);
	if (!op)
		return -ENOMEM;
	mb->m.last_call_ns = e->ts_ns;
	process_group_call(t, op);
	phases_called(m, p, op);
	if (s)
		capture_guess(p, s, e->tid);
	if (s && s->capture) {
		op_captured(m, s, t, op);
		return 0; /* lint: kept by its member */
	}
	op_number(op);
	op_link(m, &p->p, op);
	if (op->grouped && t->n_pending < PENDING_MAX)
		err = op_hold(t, op);
	if (err || !op->grouped || t->n_pending >= PENDING_MAX)
		op_enter(m, op, s, e->ts_ns);
	ops_bound(m, &mb->m);
	return err;
}

int op_apply(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);
	struct task_own *t = p ? task_get(p, e->tid) : NULL;

	if (!t)
		return -ENOMEM;
	p->p.last_call_ns = e->ts_ns;
	call_forget(p, e->tid);
	if (m->comm_inits)
		comm_inits_moved_on(m, p, e->tid, e->kind == EV_GROUP_END && e->group.depth_before <= 1, e->ts_ns);
	if (e->kind == EV_GROUP_START) {
		if (e->group.depth_before > 0)
			return 0;
		group_flush(m, p, t, e->ts_ns); /* an end was lost */
		t->group_begin_ns = e->ts_ns;
		return 0;
	}
	if (e->kind == EV_GROUP_END) {
		if (e->group.depth_before > 1)
			return 0;
		group_flush(m, p, t, e->ts_ns);
		t->group_begin_ns = 0;
		return 0;
	}
	if ((unsigned int)e->op.op >= OP_KIND_MAX)
		return -EINVAL;
	if (e->op.group_depth <= 0)
		group_flush(m, p, t, e->ts_ns);
	return op_called(m, p, t, e);
}
