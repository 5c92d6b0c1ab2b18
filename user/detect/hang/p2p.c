/* SPDX-License-Identifier: Apache-2.0
 *
 * p2p.c - see p2p.h. A Send whose Recv was not called waits, but a small one may be over in NCCL's buffers: then it
 * counts as waiting only if a query said so.
 */
#include "detect/hang/p2p.h"

#define POLLED_NS 2000000000ull /* a query said "not ready" that recently */
/* A Send of less may be over without its Recv: NCCL's buffers hold 4 MiB a channel. */
#define BUFFERED_BYTES (16u << 20)
#define PAST_SCANNED 4096 /* operations back */
#define ALIKE_MIN 8       /* before the place, to know it again */

/* --- groups --- */

static bool together(const struct op *a, const struct op *b)
{
	return a && b && a->grouped && b->grouped && a->tid == b->tid && a->enqueue_ns &&
	       a->enqueue_ns == b->enqueue_ns;
}

const struct op *group_first(const struct op *op)
{
	while (op && together(op->prev_in_proc, op))
		op = op->prev_in_proc;
	return op;
}

const struct op *group_next(const struct op *op)
{
	return together(op, op->next_in_proc) ? op->next_in_proc : NULL;
}

/* --- both sides --- */

uint64_t p2p_entered(const struct member *mb, int peer, int recv)
{
	return peer >= 0 && peer < mb->n_p2p ? mb->p2p[peer].entered[recv] : 0;
}

const struct member *member_peer(const struct member *mb, int peer)
{
	const struct comm *c = mb->comm;

	return c->by_rank && peer >= 0 && peer < c->nranks ? c->by_rank[peer] : NULL;
}

static enum op_kind other_kind(enum op_kind kind)
{
	return kind == OP_SEND ? OP_RECV : OP_SEND;
}

bool p2p_numbered(const struct op *op)
{
	const struct member *o = member_peer(op->member, op->peer);

	return !op->seq_from_attach && op->member->rank >= 0 && member_comparable(op->member, SPACE_P2P) && o &&
	       member_comparable(o, SPACE_P2P);
}

static const struct op *open_to(const struct member *mb, enum op_kind kind, int peer)
{
	int n = 0;

	for (const struct op *op = mb->first_open; op && n < OPEN_SCANNED; op = op->next, n++)
		if (op->kind == kind && op->peer == peer && !op->end_ns && op->enqueue_ns)
			return op;
	return NULL;
}

/* Of an operation that is numbered from the attach, its number on the other side. False: not known. */
static bool number_there(const struct op *op, const struct member *o, uint64_t *ret)
{
	bool recv = op->kind == OP_RECV;
	const struct member *to = recv ? op->member : o, *from = recv ? o : op->member;
	const struct p2p_seq *s = from->rank >= 0 && from->rank < to->n_p2p ? &to->p2p[from->rank] : NULL;

	if (!s || !s->ahead_known || to->blind || from->blind)
		return false;
	*ret = op->seq + (uint64_t)(recv ? s->ahead : -s->ahead);
	return true;
}

/* The first that is open may be over: a group ends as one. So it is by number, where that is known. */
const struct op *p2p_other_side(const struct op *op)
{
	const struct member *o = member_peer(op->member, op->peer);
	uint64_t seq = op->seq;

	if (!o)
		return NULL;
	if (p2p_numbered(op) || number_there(op, o, &seq))
		return member_p2p_op(o, other_kind(op->kind), op->member->rank, seq);
	return open_to(o, other_kind(op->kind), op->member->rank);
}

uint64_t p2p_free_ns(const struct member *mb, int peer, int recv)
{
	const struct member *o = member_peer(mb, peer);
	uint64_t mine = p2p_entered(mb, peer, recv), theirs = o ? p2p_entered(o, mb->rank, !recv) : 0;
	const struct op *op;

	if (!mine || !theirs)
		return 0;
	op = member_p2p_op(o, recv ? OP_SEND : OP_RECV, mb->rank, (mine < theirs ? mine : theirs) - 1);
	return op ? op->enqueue_ns : 0;
}

/* --- which side waits --- */

static bool other_side_missing(const struct op *op)
{
	const struct member *o = member_peer(op->member, op->peer);

	return o && p2p_numbered(op) && p2p_entered(o, op->member->rank, op->kind == OP_SEND) <= op->seq;
}

/* A small Send may sit in a buffer, done, and the host did not query it yet: then it waits only if a query said so, and
 * if nothing else of its group can be what was not done. */
static bool send_waits(const struct model *m, const struct op *op)
{
	bool polled = false;

	if (op->count * dtype_bytes(op->dtype) > BUFFERED_BYTES)
		return true;
	for (const struct op *o = group_first(op); o; o = group_next(o)) {
		polled |= o->not_done_ns && m->now_ns - o->not_done_ns < POLLED_NS;
		if (o->kind == OP_RECV && !o->end_ns && other_side_missing(o))
			return false;
	}
	return polled;
}

static bool p2p_waits(const struct model *m, const struct op *op)
{
	return !op->end_ns && op->enqueue_ns && (op->kind == OP_RECV || send_waits(m, op));
}

/* Of a peer whose probes the budget took no call is seen. Met late, the numbers say nothing: what the host sits in, and
 * the peer has nothing open for, was not called. Without the probes on polls and CUDA events it may be over on this
 * side, too, and unseen. */
bool p2p_unanswered(const struct model *m, const struct op *op)
{
	const uint32_t ends_unseen = 1u << PROBES_POLLS | 1u << PROBES_EVENTS;
	const struct member *o = member_peer(op->member, op->peer);

	if (!o || o == op->member || o->gone || o->proc->shed >> PROBES_NEEDED & 1 || !p2p_waits(m, op))
		return false;
	if (p2p_numbered(op))
		return p2p_entered(o, op->member->rank, op->kind == OP_SEND) <= op->seq;
	if (m->reported) /* of other hosts not all that is open is known, and as of another moment */
		return false;
	return op->member->rank >= 0 && !(op->member->proc->shed & ends_unseen) && proc_waits(op->member->proc) &&
	       op_reached(op) && !open_to(o, other_kind(op->kind), op->member->rank);
}

const struct op *p2p_waiting_op(const struct model *m, const struct member *mb, const struct member *o, int recv)
{
	const struct op *op;

	if (o == mb || o->gone || o->proc->dead || o->rank < 0 || mb->rank < 0)
		return NULL;
	op = open_to(o, recv ? OP_SEND : OP_RECV, mb->rank);
	if (op && p2p_numbered(op))
		op = member_p2p_op(o, op->kind, mb->rank, p2p_entered(mb, o->rank, recv));
	return op && p2p_unanswered(m, op) ? op : NULL;
}

/* --- did the rank leave it out? --- */

/* The rank's calls are laid against its own past: the newest ones must repeat an earlier stretch once the missing
 * operation is taken out of that, at a place which the rank has gone past. */

struct left_out {
	const struct member *mb;
	enum op_kind kind;
	int peer;
};

static bool alike(const struct op *a, const struct op *b)
{
	return a->signature == b->signature && a->member == b->member && a->peer == b->peer;
}

static bool is_left_out(const struct op *op, const struct left_out *l)
{
	return op->member == l->mb && op->kind == l->kind && op->peer == l->peer;
}

/* `past` is what the newest operation is laid against. */
static bool skip_fits(const struct op *now, const struct op *past, const struct left_out *l)
{
	int n_after = 0, n_before = 0;

	for (; now && past && alike(now, past); now = now->prev_in_proc, past = past->prev_in_proc)
		n_after++;
	if (!n_after || !now || !past || !is_left_out(past, l))
		return false;
	past = past->prev_in_proc;
	for (; now && past && n_before < ALIKE_MIN && alike(now, past);
	     now = now->prev_in_proc, past = past->prev_in_proc)
		n_before++;
	return n_before >= ALIKE_MIN;
}

bool p2p_passed(const struct proc *p, const struct member *mb, enum op_kind kind, int peer)
{
	const struct left_out l = { mb, kind, peer };
	const struct op *past = p->last_op ? p->last_op->prev_in_proc : NULL;

	if (p->reported_ns) /* its host has seen its calls, and says so */
		return peer >= 0 && peer < mb->n_p2p && mb->p2p[peer].passed[kind == OP_RECV];
	for (int i = 0; past && i < PAST_SCANNED; i++, past = past->prev_in_proc)
		if (alike(past, p->last_op) && skip_fits(p->last_op, past, &l))
			return true;
	return false;
}
