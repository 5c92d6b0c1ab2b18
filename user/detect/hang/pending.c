/* SPDX-License-Identifier: Apache-2.0
 *
 * pending.c - what a rank lacks: operations its peers of this node have entered and it has not. Asks one rank at a
 * time, in O(members of its communicators); for all ranks at once there is lag.c.
 */
#include "detect/hang/pending.h"

#include "detect/rank/activity.h"
#include "detect/hang/comm_init.h"
#include "detect/phrase.h"
#include "detect/hang/counters.h"

#define POLLED_NS 2000000000ull /* a query said "not ready" that recently */
#define BUFFERED_BYTES \
	(16u << 20) /* a Send of less may be over without its Recv: NCCL's buffers hold 4 MiB a channel */

bool rank_counts(const struct proc *p)
{
	return p->members || (!p->is_child && p->rank >= 0);
}

/* A rank that cannot come needs no patience. */
uint64_t member_limit_ns(const struct model *m, const struct member *mb)
{
	return proc_gone_or_stopped(mb->proc) ? m->hang_floor_ns : comm_lag_limit_ns(m, mb->comm);
}

/* --- collectives --- */

/* Whose operation is over does not wait: the numbers do not match. */
static void waiter_add(struct pending *l, const struct op *op)
{
	if (!op || op->end_ns)
		return;
	l->n_waiting++;
	if (l->op && l->since_ns <= op->enqueue_ns)
		return;
	l->op = op;
	l->since_ns = op->enqueue_ns;
	if (l->space >= 0)
		l->kind = op->kind;
}

/* A peer whose call was not seen, but whose counters are ahead, and stay there. */
static void counters_waiter_add(struct pending *l, const struct member *o)
{
	uint64_t since = counters_still_ns(o);

	if (!since)
		return;
	l->n_waiting++;
	if (!l->since_ns || since < l->since_ns)
		l->since_ns = since;
}

/* The operation by its kind, where no peer's call of it is known. */
static void counters_name(struct pending *l)
{
	if (l->op || !l->n_waiting)
		return;
	l->kinds = counters_pending_kinds(l->member);
	l->kind = counters_kind(l->member, l->kinds);
}

bool member_waits_at(const struct member *o, int space, uint64_t seq)
{
	return !o->proc->dead && member_comparable(o, space) && o->entered_seq[space] > seq;
}

static bool coll_pending(const struct model *m, const struct member *mb, int space, struct pending *l)
{
	*l = (struct pending){ .member = mb,
			       .space = space,
			       .peer = -1,
			       .seq = space == SEQ_COLL ? counters_pending_seq(mb) : mb->entered_seq[space],
			       .limit_ns = member_limit_ns(m, mb) };
	if (!member_comparable(mb, space) || l->seq >= mb->comm->highest_seq[space])
		return false;
	for (const struct member *o = mb->comm->members; o; o = o->next_in_comm) {
		if (!member_waits_at(o, space, l->seq))
			continue;
		if (space == SEQ_COLL)
			counters_waiter_add(l, o);
		waiter_add(l, member_op(o, space, l->seq)); /* the wait counts from the first whose call was seen */
	}
	counters_name(l);
	return l->n_waiting > 0;
}

/* --- Send and Recv --- */

static uint64_t p2p_entered(const struct member *mb, int peer, int recv)
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

const struct op *p2p_other_side(const struct op *op)
{
	const struct member *o = member_peer(op->member, op->peer);

	if (!o)
		return NULL;
	if (p2p_numbered(op))
		return member_p2p_op(o, other_kind(op->kind), op->member->rank, op->seq);
	return open_to(o, other_kind(op->kind), op->member->rank);
}

static bool together(const struct op *a, const struct op *b)
{
	return a && b && a->grouped && b->grouped && a->tid == b->tid && a->enqueue_ns &&
	       a->enqueue_ns == b->enqueue_ns;
}

const struct op *group_first(const struct op *op)
{
	while (together(op->prev_in_proc, op))
		op = op->prev_in_proc;
	return op;
}

const struct op *group_next(const struct op *op)
{
	return together(op, op->next_in_proc) ? op->next_in_proc : NULL;
}

static bool other_side_missing(const struct op *op)
{
	const struct member *o = member_peer(op->member, op->peer);

	return o && p2p_numbered(op) && p2p_entered(o, op->member->rank, op->kind == OP_SEND) <= op->seq;
}

/* A small Send may sit in a buffer, done, and nobody looked yet: then it waits only if a query said so, and if nothing
 * else of its group can be what was not done. */
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

/* Met late, the numbers say nothing: what the host sits in, and the peer has nothing open for, was not called. Without
 * the probes on polls it may be over on this side, too, and nobody saw it. */
bool p2p_unanswered(const struct model *m, const struct op *op)
{
	const struct member *o = member_peer(op->member, op->peer);

	if (!o || o == op->member || o->gone || !p2p_waits(m, op))
		return false;
	if (p2p_numbered(op))
		return p2p_entered(o, op->member->rank, op->kind == OP_SEND) <= op->seq;
	return op->member->rank >= 0 && !(op->member->proc->shed >> PROBES_POLLS & 1) && proc_waits(op->member->proc) &&
	       op_reached(op) && !open_to(o, other_kind(op->kind), op->member->rank);
}

/* The operation of `o` that waits for a Recv (recv) or a Send of `mb`, NULL none. */
static const struct op *p2p_waiter(const struct model *m, const struct member *mb, const struct member *o, int recv)
{
	const struct op *op;

	if (o == mb || o->gone || o->proc->dead || o->rank < 0 || mb->rank < 0)
		return NULL;
	op = open_to(o, recv ? OP_SEND : OP_RECV, mb->rank);
	if (op && p2p_numbered(op))
		op = member_p2p_op(o, op->kind, mb->rank, p2p_entered(mb, o->rank, recv));
	return op && p2p_unanswered(m, op) ? op : NULL;
}

/* recv: the rank lacks a Recv (the peer's Send waits), else a Send. */
static bool p2p_pending(const struct model *m, const struct member *mb, const struct member *o, int recv,
			struct pending *l)
{
	const struct op *op = mb->gone ? NULL : p2p_waiter(m, mb, o, recv);

	*l = (struct pending){ .member = mb,
			       .space = SPACE_P2P,
			       .kind = recv ? OP_RECV : OP_SEND,
			       .peer = o->rank,
			       .seq = op ? op->seq : 0,
			       .limit_ns = member_limit_ns(m, mb) };
	waiter_add(l, op);
	return l->op != NULL;
}

/* --- one rank --- */

void rank_pending_each(const struct model *m, const struct proc *p, void (*each)(void *arg, const struct pending *l),
		       void *arg)
{
	struct pending l;

	for (const struct birth *b = m->births; b; b = b->next)
		if (comm_init_pending(m, b, p, &l))
			each(arg, &l);
	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc) {
		if (mb->gone)
			continue;
		for (int space = 0; space < SEQ_SPACES; space++)
			if (coll_pending(m, mb, space, &l))
				each(arg, &l);
		for (const struct member *o = mb->comm->members; o; o = o->next_in_comm)
			for (int recv = 0; o->n_p2p && recv < 2; recv++)
				if (p2p_pending(m, mb, o, recv, &l))
					each(arg, &l);
	}
}

static bool pending_now(const struct model *m, const struct member *mb, const struct pending *l, struct pending *now)
{
	const struct member *o = l->space == SPACE_P2P ? member_peer(mb, l->peer) : NULL;

	if (mb->gone)
		return false;
	return l->space >= 0 ? coll_pending(m, mb, l->space, now) : o && p2p_pending(m, mb, o, l->kind == OP_RECV, now);
}

static bool comm_init_still_pending(const struct model *m, const struct proc *p, struct pending *l)
{
	struct pending now;

	for (const struct birth *b = m->births; b; b = b->next)
		if (comm_init_key(b) == l->seq && comm_init_pending(m, b, p, &now)) {
			*l = now;
			return true;
		}
	return false;
}

bool rank_still_pending(const struct model *m, const struct proc *p, struct pending *l)
{
	struct pending now;

	if (l->space == SPACE_INIT)
		return comm_init_still_pending(m, p, l);
	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
		if (mb == l->member && pending_now(m, mb, l, &now) && now.seq == l->seq) {
			now.limit_ns = now.limit_ns < l->limit_ns ? now.limit_ns : l->limit_ns;
			*l = now;
			return true;
		}
	return false;
}

struct choice {
	const struct op *next;
	struct pending *best;
	bool found;
	int rank;
	uint64_t now_ns, limit_ns;
};

static bool is_next(const struct op *next, const struct pending *l)
{
	if (!next || next->member != l->member)
		return false;
	return l->space >= 0 ? op_space(next) == l->space : next->kind == l->kind && next->peer == l->peer;
}

/* Of operations that one look showed at once, the one in the communicator that is used most: most likely it comes next.
 */
static bool waits_longer(const struct pending *a, const struct pending *b)
{
	return a->since_ns < b->since_ns || (a->since_ns == b->since_ns && a->kinds && b->kinds && a->seq > b->seq);
}

static void choose(void *arg, const struct pending *l)
{
	struct choice *c = arg;
	int rank = l->space == SPACE_INIT ? 2 : is_next(c->next, l);

	if (c->now_ns > l->since_ns + l->limit_ns && l->limit_ns < c->limit_ns)
		c->limit_ns = l->limit_ns;
	if (c->found && (c->rank > rank || (c->rank == rank && !waits_longer(l, c->best))))
		return;
	*c->best = *l;
	c->found = true;
	c->rank = rank;
}

bool rank_pending(const struct model *m, const struct proc *p, struct pending *ret)
{
	struct choice c = { .next = rank_next_op(p), .best = ret, .now_ns = m->now_ns, .limit_ns = UINT64_MAX };

	rank_pending_each(m, p, choose, &c);
	if (c.found && c.limit_ns < ret->limit_ns) /* late in one communicator is late, whatever another is used to */
		ret->limit_ns = c.limit_ns;
	return c.found;
}

/* --- since when it is free --- */

static uint64_t coll_free_ns(const struct member *mb, int space)
{
	uint64_t all = mb->entered_seq[space];

	for (const struct member *o = mb->comm->members; o && all; o = o->next_in_comm)
		if (member_comparable(o, space) && !o->proc->dead && o->entered_seq[space] < all)
			all = o->entered_seq[space];
	return all && member_comparable(mb, space) ? comm_entry_ns(mb->comm, space, all - 1) : 0;
}

static uint64_t p2p_free_ns(const struct member *mb, int peer, int recv)
{
	const struct member *o = member_peer(mb, peer);
	uint64_t mine = p2p_entered(mb, peer, recv), theirs = o ? p2p_entered(o, mb->rank, !recv) : 0;
	const struct op *op;

	if (!mine || !theirs)
		return 0;
	op = member_p2p_op(o, recv ? OP_SEND : OP_RECV, mb->rank, (mine < theirs ? mine : theirs) - 1);
	return op ? op->enqueue_ns : 0;
}

uint64_t rank_free_since_ns(const struct proc *p)
{
	uint64_t since = p->last_call_ns, one;

	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc) {
		for (int space = 0; !mb->gone && space < SEQ_SPACES; space++) {
			one = coll_free_ns(mb, space);
			since = one > since ? one : since;
		}
		for (int k = 0; !mb->gone && k < 2 * mb->n_p2p; k++) {
			one = p2p_free_ns(mb, k / 2, k % 2);
			since = one > since ? one : since;
		}
	}
	return since;
}

/* --- text --- */

void pending_waiting_text(const struct pending *l, char *buf, size_t cap)
{
	const struct member *o;

	buf[0] = 0;
	if (l->birth)
		for (const struct birth_member *bm = l->birth->members; bm; bm = bm->next)
			if (comm_init_waits(bm))
				phrase_list(buf, cap, proc_rank(bm->proc));
	for (int r = 0; l->member && r < l->member->comm->nranks; r++) {
		o = l->space == SPACE_P2P && r != l->peer ? NULL : member_peer(l->member, r);
		if (o && o != l->member && (l->space == SPACE_P2P || member_waits_at(o, l->space, l->seq)))
			phrase_list(buf, cap, proc_rank(o->proc));
	}
}
