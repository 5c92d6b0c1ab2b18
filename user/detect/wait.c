/* SPDX-License-Identifier: Apache-2.0
 *
 * wait.c - what a rank lacks: operations its peers of this node have entered and it has not.
 */
#include "detect/wait.h"

#include <string.h>

static bool member_counts(const struct member *mb)
{
	return mb && !mb->gone;
}

static bool comparable(const struct member *mb, int space)
{
	return mb && member_comparable(mb, space);
}

/* A rank that cannot come needs no patience. */
static uint64_t limit_ns(const struct model *m, const struct member *mb)
{
	const struct task *t = mb->proc->tasks;

	while (t && t->tid != mb->proc->tgid)
		t = t->next;
	return mb->proc->dead || (t && t->state == TASK_STOPPED) ? m->hang_floor_ns : comm_lag_limit_ns(m, mb->comm);
}

/* Whose operation is over does not wait: a small Send sits in a buffer, or the numbers do not match. */
static void waiter_add(struct lack *l, const struct op *op)
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

/* Peers in `l`'s communicator that entered what `l` lacks. The wait counts from the first whose call was seen. */
static bool coll_waiters(struct lack *l)
{
	for (const struct member *o = l->member->comm->members; o; o = o->next_in_comm)
		if (o != l->member && !o->proc->dead && comparable(o, l->space) && o->entered_seq[l->space] > l->seq)
			waiter_add(l, member_op(o, l->space, l->seq));
	return l->op != NULL;
}

static bool coll_lack(const struct model *m, const struct member *mb, int space, struct lack *l)
{
	*l = (struct lack){ .member = mb, .space = space, .peer = -1, .seq = mb->entered_seq[space],
			    .limit_ns = limit_ns(m, mb) };
	if (!comparable(mb, space) || l->seq >= mb->comm->highest_seq[space])
		return false;
	return coll_waiters(l);
}

static uint64_t p2p_entered(const struct member *mb, int peer, int recv)
{
	return peer >= 0 && peer < mb->n_p2p ? mb->p2p[peer].entered[recv] : 0;
}

static const struct member *peer_member(const struct member *mb, int peer)
{
	const struct comm *c = mb->comm;

	return c->by_rank && peer >= 0 && peer < c->nranks ? c->by_rank[peer] : NULL;
}

/* recv: the rank lacks a Recv (the peer's Send waits), else a Send. */
static bool p2p_lack(const struct model *m, const struct member *mb, int peer, int recv, struct lack *l)
{
	const struct member *o = peer_member(mb, peer);

	*l = (struct lack){ .member = mb, .space = -1, .kind = recv ? OP_RECV : OP_SEND, .peer = peer,
			    .seq = p2p_entered(mb, peer, recv), .limit_ns = limit_ns(m, mb) };
	if (o == mb || !comparable(mb, -1) || !comparable(o, -1) || o->proc->dead || mb->rank < 0)
		return false;
	if (p2p_entered(o, mb->rank, !recv) <= l->seq)
		return false;
	waiter_add(l, member_p2p_op(o, recv ? OP_SEND : OP_RECV, mb->rank, l->seq));
	return l->op != NULL;
}

static int p2p_peers(const struct member *mb)
{
	int n = 0;

	for (const struct member *o = mb->comm->members; o; o = o->next_in_comm)
		n = o->n_p2p > n ? o->n_p2p : n;
	return n;
}

void rank_lacks_each(const struct model *m, const struct proc *p, void (*each)(void *arg, const struct lack *l), void *arg)
{
	struct lack l;

	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc) {
		if (!member_counts(mb))
			continue;
		for (int space = 0; space < SEQ_SPACES; space++)
			if (coll_lack(m, mb, space, &l))
				each(arg, &l);
		for (int peer = 0, n = p2p_peers(mb); peer < n; peer++)
			for (int recv = 0; recv < 2; recv++)
				if (p2p_lack(m, mb, peer, recv, &l))
					each(arg, &l);
	}
}

bool rank_still_lacks(const struct model *m, const struct proc *p, struct lack *l)
{
	struct lack now;
	bool lacks = false;

	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc) {
		if (mb != l->member || !member_counts(mb))
			continue;
		lacks = l->space >= 0 ? coll_lack(m, mb, l->space, &now) : p2p_lack(m, mb, l->peer, l->kind == OP_RECV, &now);
		if (lacks && now.seq == l->seq) {
			*l = now;
			return true;
		}
	}
	return false;
}

struct choice { const struct model *m; const struct op *next; struct lack *best; bool found, exact; };

const struct op *rank_next_op(const struct proc *p)
{
	const struct op *op = p->last_op;

	if (!p->steps || !p->steps->period_ops)
		return NULL;
	for (size_t i = 1; op && i < p->steps->period_ops; i++)
		op = op->prev_in_proc;
	return op;
}

static bool is_next(const struct op *next, const struct lack *l)
{
	if (!next || next->member != l->member)
		return false;
	return l->space >= 0 ? op_space(next) == l->space : next->kind == l->kind && next->peer == l->peer;
}

static void choose(void *arg, const struct lack *l)
{
	struct choice *c = arg;
	bool exact = is_next(c->next, l);

	if (c->found && (c->exact || (!exact && c->best->since_ns <= l->since_ns)))
		return;
	*c->best = *l;
	c->found = true;
	c->exact = exact;
}

bool rank_lacks(const struct model *m, const struct proc *p, struct lack *ret)
{
	struct choice c = { .m = m, .next = rank_next_op(p), .best = ret };

	rank_lacks_each(m, p, choose, &c);
	return c.found;
}

struct lateness { uint64_t now_ns; bool late; };

static void late_check(void *arg, const struct lack *l)
{
	struct lateness *s = arg;

	s->late |= s->now_ns > l->since_ns && s->now_ns - l->since_ns > l->limit_ns;
}

bool rank_late(const struct model *m, const struct proc *p)
{
	struct lateness s = { .now_ns = m->now_ns };

	rank_lacks_each(m, p, late_check, &s);
	return s.late;
}

static uint64_t coll_free_ns(const struct member *mb)
{
	uint64_t all = mb->entered_seq[SEQ_COLL];

	for (const struct member *o = mb->comm->members; o; o = o->next_in_comm)
		if (comparable(o, SEQ_COLL) && !o->proc->dead && o->entered_seq[SEQ_COLL] < all)
			all = o->entered_seq[SEQ_COLL];
	return all && mb->seq_known ? comm_entry_ns(mb->comm, SEQ_COLL, all - 1) : 0;
}

static uint64_t p2p_free_ns(const struct member *mb, int peer, int recv)
{
	const struct member *o = peer_member(mb, peer);
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
		one = mb->gone ? 0 : coll_free_ns(mb);
		since = one > since ? one : since;
		for (int k = 0; !mb->gone && k < 2 * mb->n_p2p; k++) {
			one = p2p_free_ns(mb, k / 2, k % 2);
			since = one > since ? one : since;
		}
	}
	return since;
}

static void rank_text(char *buf, size_t cap, const struct member *mb)
{
	char digits[12];
	int r = proc_rank(mb->proc), at = sizeof(digits) - 1;
	size_t n = strlen(buf);

	digits[at] = 0;
	do
		digits[--at] = '0' + (r > 0 ? r % 10 : 0);
	while ((r /= 10) > 0);
	if (n)
		digits[--at] = ',';
	if (n + strlen(digits + at) < cap) /* a list that is too long ends early */
		strcpy(buf + n, digits + at);
}

void lack_waiting_text(const struct lack *l, char *buf, size_t cap)
{
	const struct member *o;

	buf[0] = 0;
	if (l->space < 0) {
		o = peer_member(l->member, l->peer);
		if (o)
			rank_text(buf, cap, o);
		return;
	}
	for (int r = 0; r < l->member->comm->nranks; r++) {
		o = peer_member(l->member, r);
		if (o && o != l->member && !o->gone && !o->proc->dead && o->entered_seq[l->space] > l->seq)
			rank_text(buf, cap, o);
	}
}
