/* SPDX-License-Identifier: Apache-2.0
 *
 * pending.c - see pending.h. One rank is asked in O(members of its communicators); one pass finds all that lag.
 */
#include "detect/hang/pending.h"

#include "detect/hang/comm_init.h"
#include "detect/hang/p2p.h"
#include "detect/phrase.h"
#include "detect/rank/activity.h"
#include "detect/rank/counters.h"

#define LEVELS_MAX 64

/* How long peers may wait for this member; no lag is usual for one that cannot come. */
static uint64_t member_limit_ns(const struct model *m, const struct member *mb)
{
	return proc_gone_or_stopped(mb->proc) ? m->hang_floor_ns : comm_lag_limit_ns(m, mb->comm);
}

/* --- collectives --- */

/* A peer whose operation is over does not wait: the numbers do not match. */
static void waiter_add(struct pending *pend, const struct op *op)
{
	if (!op || op->end_ns)
		return;
	pend->n_waiting++;
	if (pend->op && pend->since_ns <= op->enqueue_ns)
		return;
	pend->op = op;
	pend->since_ns = op->enqueue_ns;
	if (pend->space >= 0)
		pend->kind = op->kind;
}

/* A peer whose call was not seen, but whose counters are ahead, and stay there. */
static void counters_waiter_add(struct pending *pend, const struct member *o)
{
	uint64_t since = counters_still_ns(o);

	if (!since)
		return;
	pend->n_waiting++;
	if (!pend->since_ns || since < pend->since_ns)
		pend->since_ns = since;
}

/* The operation by its kind, where no peer's call of it is known. */
static void counters_name(struct pending *pend)
{
	if (pend->op || !pend->n_waiting)
		return;
	pend->kinds = counters_pending_kinds(pend->member);
	pend->kind = counters_kind(pend->member, pend->kinds);
}

/* Alive, and entered operation `seq` of that space. */
static bool member_waits_at(const struct member *o, int space, uint64_t seq)
{
	return !o->proc->dead && member_comparable(o, space) && o->entered_seq[space] > seq;
}

static bool coll_pending(const struct model *m, const struct member *mb, int space, struct pending *pend)
{
	*pend = (struct pending){ .member = mb,
				  .space = space,
				  .peer = -1,
				  .seq = space == SEQ_COLL ? counters_pending_seq(mb) : mb->entered_seq[space],
				  .limit_ns = member_limit_ns(m, mb) };
	if (!member_comparable(mb, space) || pend->seq >= mb->comm->highest_seq[space])
		return false;
	for (const struct member *o = mb->comm->members; o; o = member_next_in_comm(o)) {
		const struct op *op = member_op(o, space, pend->seq);

		if (member_waits_at(o, space, pend->seq)) {
			if (space == SEQ_COLL && (!op || op->end_ns))
				counters_waiter_add(pend, o);
			waiter_add(pend, op); /* the wait counts from the first whose call was seen */
		}
	}
	counters_name(pend);
	return pend->n_waiting > 0;
}

/* --- Send and Recv, init --- */

/* recv: a Recv is pending (the peer's Send waits), else a Send. */
static bool p2p_pending(const struct model *m, const struct member *mb, const struct member *o, int recv,
			struct pending *pend)
{
	const struct op *op = mb->gone ? NULL : p2p_waiting_op(m, mb, o, recv);

	*pend = (struct pending){ .member = mb,
				  .space = SPACE_P2P,
				  .kind = recv ? OP_RECV : OP_SEND,
				  .peer = o->rank,
				  .seq = op ? op->seq : 0,
				  .limit_ns = member_limit_ns(m, mb) };
	waiter_add(pend, op);
	return pend->op != NULL;
}

/* This rank, and surely this one, keeps the others waiting in the init. */
static bool init_pending(const struct model *m, const struct comm_init *b, const struct proc *p, struct pending *pend)
{
	struct rank_ref missing[INIT_MISSING_MAX];
	int n = comm_init_missing(m, b, missing, NULL);

	while (n > 0 && missing[n - 1].proc != p)
		n--;
	*pend = (struct pending){ .space = SPACE_INIT,
				  .peer = -1,
				  .seq = comm_init_key(b),
				  .since_ns = comm_init_since_ns(b),
				  .limit_ns = comm_init_limit_ns(m, p),
				  .init = b };
	for (const struct comm_init_member *bm = b->members; bm; bm = bm->next)
		pend->n_waiting += comm_init_waits(bm);
	return n > 0;
}

/* --- one rank --- */

typedef void pending_each(void *arg, const struct pending *pend);

static void member_pending_each(const struct model *m, const struct member *mb, pending_each *each, void *arg)
{
	struct pending pend;

	if (mb->gone)
		return;
	for (int space = 0; space < SEQ_SPACES; space++)
		if (coll_pending(m, mb, space, &pend))
			each(arg, &pend);
	for (const struct member *o = mb->comm->members; o; o = member_next_in_comm(o))
		for (int recv = 0; o->n_p2p && recv < 2; recv++)
			if (p2p_pending(m, mb, o, recv, &pend))
				each(arg, &pend);
}

static void rank_pending_each(const struct model *m, const struct proc *p, pending_each *each, void *arg)
{
	struct pending pend;

	for (const struct comm_init *b = m->comm_inits; b; b = b->next)
		if (init_pending(m, b, p, &pend))
			each(arg, &pend);
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
		member_pending_each(m, mb, each, arg);
}

static bool pending_now(const struct model *m, const struct member *mb, const struct pending *pend, struct pending *now)
{
	const struct member *o = pend->space == SPACE_P2P ? member_peer(mb, pend->peer) : NULL;

	if (mb->gone)
		return false;
	return pend->space >= 0 ? coll_pending(m, mb, pend->space, now)
				: o && p2p_pending(m, mb, o, pend->kind == OP_RECV, now);
}

static bool init_still_pending(const struct model *m, const struct proc *p, struct pending *pend)
{
	struct pending now;

	for (const struct comm_init *b = m->comm_inits; b; b = b->next)
		if (comm_init_key(b) == pend->seq && init_pending(m, b, p, &now)) {
			*pend = now;
			return true;
		}
	return false;
}

bool rank_still_pending(const struct model *m, const struct proc *p, struct pending *pend)
{
	struct pending now;

	if (pend->space == SPACE_INIT)
		return init_still_pending(m, p, pend);
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
		if (mb == pend->member && pending_now(m, mb, pend, &now) && now.seq == pend->seq) {
			now.usual_ns = now.limit_ns;
			now.limit_ns = now.limit_ns < pend->limit_ns ? now.limit_ns : pend->limit_ns;
			*pend = now;
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

static bool is_next(const struct op *next, const struct pending *pend)
{
	if (!next || next->member != pend->member)
		return false;
	return pend->space >= 0 ? op_space(next) == pend->space : next->kind == pend->kind && next->peer == pend->peer;
}

/* Of operations that one sample showed at once, that of the communicator that is used most: likely it is next. */
static bool waits_longer(const struct pending *a, const struct pending *b)
{
	return a->since_ns < b->since_ns || (a->since_ns == b->since_ns && a->kinds && b->kinds && a->seq > b->seq);
}

static void choose(void *arg, const struct pending *pend)
{
	struct choice *c = arg;
	int rank = pend->space == SPACE_INIT ? 2 : is_next(c->next, pend);

	if (c->now_ns > pend->since_ns + pend->limit_ns && pend->limit_ns < c->limit_ns)
		c->limit_ns = pend->limit_ns;
	if (c->found && (c->rank > rank || (c->rank == rank && !waits_longer(pend, c->best))))
		return;
	*c->best = *pend;
	c->best->usual_ns = pend->limit_ns;
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

bool member_pending(const struct model *m, const struct member *mb, struct pending *ret)
{
	struct choice c = { .best = ret, .now_ns = m->now_ns, .limit_ns = UINT64_MAX };

	member_pending_each(m, mb, choose, &c);
	return c.found;
}

/* --- since when it is free --- */

static uint64_t coll_free_ns(const struct member *mb, int space)
{
	uint64_t all = mb->entered_seq[space];

	for (const struct member *o = mb->comm->members; o && all; o = member_next_in_comm(o))
		if (member_comparable(o, space) && !o->proc->dead && o->entered_seq[space] < all)
			all = o->entered_seq[space];
	return all && member_comparable(mb, space) ? comm_entry_ns(mb->comm, space, all - 1) : 0;
}

uint64_t rank_free_since_ns(const struct proc *p)
{
	uint64_t since = p->last_call_ns, one;

	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb)) {
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

/* --- all ranks: who lags past the limit --- */

bool comm_span(const struct comm *c, int space, uint64_t *ret_lo, uint64_t *ret_hi)
{
	*ret_lo = UINT64_MAX;
	*ret_hi = 0;
	if (!c->highest_seq[space])
		return false;
	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb)) {
		uint64_t n = mb->entered_seq[space];

		if (!member_comparable(mb, space))
			continue;
		*ret_lo = n < *ret_lo ? n : *ret_lo;
		*ret_hi = n > *ret_hi && !mb->proc->dead ? n : *ret_hi;
	}
	return *ret_lo < *ret_hi;
}

bool comm_even(struct even_memo *memo, const struct comm *c)
{
	uint64_t at = c->hash % EVEN_MEMO, lo, hi;

	if (memo->comm[at] == c)
		return memo->even[at];
	if (memo->comm[at] && memo->comm[at]->nranks > c->nranks) /* a large one is not driven out by small ones */
		return !comm_span(c, SEQ_COLL, &lo, &hi);
	memo->comm[at] = c;
	return memo->even[at] = !comm_span(c, SEQ_COLL, &lo, &hi);
}

struct lagging {
	const struct model *m;
	uint64_t ahead_ns; /* how long before its limit a rank lags already */
	void (*each)(void *arg, const struct proc *p);
	void *arg;
};

static uint64_t sooner_ns(const struct lagging *s, uint64_t limit_ns)
{
	return limit_ns > 2 * s->ahead_ns ? limit_ns - s->ahead_ns : limit_ns - limit_ns / 2;
}

/* Since when somebody waits at this level: the first that waits for longer than `enough_ns`, else the longest. */
static uint64_t level_since(const struct model *m, const struct comm *c, int space, uint64_t level, uint64_t enough_ns)
{
	uint64_t since = m->now_ns;

	for (const struct member *o = c->members; o && m->now_ns - since <= enough_ns; o = member_next_in_comm(o)) {
		bool waits = member_waits_at(o, space, level);
		const struct op *op = waits ? member_op(o, space, level) : NULL;
		uint64_t still = waits && space == SEQ_COLL ? counters_still_ns(o) : 0;

		if (op && !op->end_ns && op->enqueue_ns < since)
			since = op->enqueue_ns;
		if (still && still < since)
			since = still;
	}
	return since;
}

static uint64_t level_next(const struct comm *c, int space, uint64_t level)
{
	uint64_t next = UINT64_MAX;

	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb))
		if (member_comparable(mb, space) && mb->entered_seq[space] > level && mb->entered_seq[space] < next)
			next = mb->entered_seq[space];
	return next;
}

static bool calls_seen(const struct comm *c)
{
	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb))
		if (!mb->gone && mb->last_call_ns)
			return true;
	return false;
}

/* How long the member has kept the first of its peers waiting, as far as is known: of one that is sampled beside peers
 * whose calls are seen, or of whom another host reports, as of its newest sample. */
static uint64_t waited_for_ns(const struct model *m, const struct member *mb, uint64_t since_ns)
{
	bool sampled = member_by_counters(mb) && !mb->proc->dead && (m->reported || calls_seen(mb->comm));
	uint64_t known = sampled ? mb->samples.seen_ns : m->now_ns;

	return known > since_ns ? known - since_ns : 0;
}

static void space_lagging(const struct lagging *s, const struct comm *c, int space)
{
	uint64_t level, hi, since, waited, enough;

	if (!comm_span(c, space, &level, &hi))
		return;
	enough = sooner_ns(s, comm_lag_limit_ns(s->m, c)); /* which reads all members: only where it is uneven */
	for (int n = 0; level < hi && n < LEVELS_MAX; n++, level = level_next(c, space, level)) {
		since = level_since(s->m, c, space, level, enough);
		waited = s->m->now_ns - since;
		if (waited && waited <= sooner_ns(s, s->m->hang_floor_ns)) /* further ahead they wait for less */
			return;
		for (const struct member *mb = c->members; waited && mb; mb = member_next_in_comm(mb))
			if (member_comparable(mb, space) && mb->entered_seq[space] == level &&
			    waited_for_ns(s->m, mb, since) > sooner_ns(s, member_limit_ns(s->m, mb)))
				s->each(s->arg, mb->proc);
	}
}

static void p2p_lagging(const struct lagging *s, const struct member *mb)
{
	const struct op *op = mb->gone || !mb->n_p2p || mb->proc->dead ? NULL : mb->first_open;

	for (int n = 0; op && n < OPEN_SCANNED; op = op->next, n++) {
		const struct member *peer = op_kind_p2p(op->kind) ? member_peer(mb, op->peer) : NULL;

		if (peer && s->m->now_ns > op->enqueue_ns + sooner_ns(s, s->m->hang_floor_ns) &&
		    p2p_unanswered(s->m, op) &&
		    waited_for_ns(s->m, peer, op->enqueue_ns) > sooner_ns(s, member_limit_ns(s->m, peer)))
			s->each(s->arg, peer->proc);
	}
}

static void init_lagging(const struct lagging *s, const struct comm_init *b)
{
	struct rank_ref r[INIT_MISSING_MAX];

	for (int i = 0, n = comm_init_missing(s->m, b, r, NULL); i < n; i++)
		if (s->m->now_ns > comm_init_since_ns(b) + sooner_ns(s, comm_init_limit_ns(s->m, r[i].proc)))
			s->each(s->arg, r[i].proc);
}

void ranks_lagging_each(const struct model *m, uint64_t ahead_ns, void (*each)(void *arg, const struct proc *p),
			void *arg)
{
	struct lagging s = { m, ahead_ns, each, arg };

	for (const struct comm_init *b = m->comm_inits; b; b = b->next)
		init_lagging(&s, b);
	for (const struct comm *c = m->comms; c; c = c->next) {
		for (int space = 0; space < SEQ_SPACES; space++)
			space_lagging(&s, c, space);
		for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb))
			p2p_lagging(&s, mb);
	}
}

/* --- text --- */

/* Where its process is several ranks: what it is in the parent, or what its thread is elsewhere. */
static int caller_rank(const struct comm_init *b, const struct comm_init_member *bm)
{
	const struct member *mb = bm->proc->shared && b->parent ? member_peer(b->parent->members, bm->rank) : NULL;
	struct seats s;

	if (!bm->proc->shared)
		return proc_rank(bm->proc);
	if (mb)
		return member_rank(mb);
	seats_of_thread(bm->proc, bm->tid, &s);
	return s.n == 1 ? member_rank(s.all[0]) : bm->rank;
}

void pending_waiting_text(const struct pending *pend, char *buf, size_t cap)
{
	const struct member *o;

	buf[0] = 0;
	if (pend->init)
		for (const struct comm_init_member *bm = pend->init->members; bm; bm = bm->next)
			if (comm_init_waits(bm))
				phrase_list(buf, cap, caller_rank(pend->init, bm));
	for (int r = 0; pend->member && r < pend->member->comm->nranks; r++) {
		o = pend->space == SPACE_P2P && r != pend->peer ? NULL : member_peer(pend->member, r);
		if (o && o != pend->member && (pend->space == SPACE_P2P || member_waits_at(o, pend->space, pend->seq)))
			phrase_list(buf, cap, member_rank(o));
	}
}
