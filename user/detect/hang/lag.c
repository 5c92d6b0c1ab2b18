/* SPDX-License-Identifier: Apache-2.0
 *
 * lag.c - which ranks are late at all, for every rank at once: one pass over each communicator, level by level from
 * the one furthest behind, which ends at the first level that is in time. A job that runs well costs O(members).
 */
#include "detect/hang/comm_init.h"
#include "detect/hang/counters.h"
#include "detect/hang/pending.h"

#define LEVELS_MAX 64

bool comm_span(const struct comm *c, int space, uint64_t *ret_lo, uint64_t *ret_hi)
{
	*ret_lo = UINT64_MAX;
	*ret_hi = 0;
	if (!c->highest_seq[space])
		return false;
	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm) {
		uint64_t n = mb->entered_seq[space];

		if (!member_comparable(mb, space))
			continue;
		*ret_lo = n < *ret_lo ? n : *ret_lo;
		*ret_hi = n > *ret_hi && !mb->proc->dead ? n : *ret_hi;
	}
	return *ret_lo < *ret_hi;
}

struct lagging {
	const struct model *m;
	void (*each)(void *arg, const struct proc *p);
	void *arg;
};

/* Since when somebody waits at this level: the first found that waits for longer than `enough_ns`, else the longest. */
static uint64_t level_since(const struct model *m, const struct comm *c, int space, uint64_t level, uint64_t enough_ns)
{
	uint64_t since = m->now_ns;

	for (const struct member *o = c->members; o && m->now_ns - since <= enough_ns; o = o->next_in_comm) {
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

	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm)
		if (member_comparable(mb, space) && mb->entered_seq[space] > level && mb->entered_seq[space] < next)
			next = mb->entered_seq[space];
	return next;
}

static void space_lagging(const struct lagging *s, const struct comm *c, int space)
{
	uint64_t level, hi, waited, enough = comm_lag_limit_ns(s->m, c);

	if (!comm_span(c, space, &level, &hi))
		return;
	for (int n = 0; level < hi && n < LEVELS_MAX; n++, level = level_next(c, space, level)) {
		waited = s->m->now_ns - level_since(s->m, c, space, level, enough);
		if (waited && waited <= s->m->hang_floor_ns) /* further ahead they wait for less */
			return;
		for (const struct member *mb = c->members; waited && mb; mb = mb->next_in_comm)
			if (member_comparable(mb, space) && mb->entered_seq[space] == level &&
			    waited > member_limit_ns(s->m, mb))
				s->each(s->arg, mb->proc);
	}
}

static void p2p_lagging(const struct lagging *s, const struct member *mb)
{
	const struct op *op = mb->gone || mb->proc->dead || !mb->n_p2p ? NULL : mb->first_open;

	for (int n = 0; op && n < OPEN_SCANNED; op = op->next, n++) {
		if (!op_kind_p2p(op->kind) || s->m->now_ns <= op->enqueue_ns + s->m->hang_floor_ns ||
		    !p2p_unanswered(s->m, op))
			continue;
		if (s->m->now_ns - op->enqueue_ns > member_limit_ns(s->m, member_peer(mb, op->peer)))
			s->each(s->arg, member_peer(mb, op->peer)->proc);
	}
}

static void init_lagging(const struct lagging *s, const struct birth *b)
{
	const struct proc *missing[INIT_MISSING_MAX];
	int n = comm_init_missing(s->m, b, missing, NULL);

	for (int i = 0; i < n; i++)
		if (s->m->now_ns > comm_init_since_ns(b) + comm_init_limit_ns(s->m, missing[i]))
			s->each(s->arg, missing[i]);
}

void ranks_lagging_each(const struct model *m, void (*each)(void *arg, const struct proc *p), void *arg)
{
	struct lagging s = { m, each, arg };

	for (const struct birth *b = m->births; b; b = b->next)
		init_lagging(&s, b);
	for (const struct comm *c = m->comms; c; c = c->next) {
		for (int space = 0; space < SEQ_SPACES; space++)
			space_lagging(&s, c, space);
		for (const struct member *mb = c->members; mb; mb = mb->next_in_comm)
			p2p_lagging(&s, mb);
	}
}
