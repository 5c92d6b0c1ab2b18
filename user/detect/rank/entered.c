/* SPDX-License-Identifier: Apache-2.0
 *
 * entered.c - see entered.h. Hosts enqueue far ahead, so that many operations have been entered for as long as the
 * first of them takes: what counts is when a rank's GPU came to it.
 */
#include "detect/rank/entered.h"

#include "base/larger.h"

/* At the earliest: what ran before it in its communicator was over. */
static uint64_t reached_ns(const struct op *op)
{
	return larger(op->enqueue_ns, op->prev ? op->prev->end_ns : 0);
}

static uint64_t last_ns(const struct op *op)
{
	const struct comm *c = op->member->comm;
	const struct op *other;
	int space = op_space(op);
	uint64_t last = 0;

	if (!c->by_rank || c->n_seen < c->nranks || space < 0)
		return 0;
	for (int r = 0; r < c->nranks; r++) {
		other = member_comparable(c->by_rank[r], space) ? member_op(c->by_rank[r], space, op->seq) : NULL;
		if (!other || !other->enqueue_ns)
			return 0;
		last = larger(last, reached_ns(other));
	}
	return last;
}

/* A large communicator, of which many ask, is not driven out by a small one. */
static bool is_kept(const struct comm *there, const struct comm *c)
{
	return there && there->nranks > c->nranks;
}

uint64_t entered_last_ns(struct entered *e, const struct op *op)
{
	const struct comm *c = op->member->comm;
	size_t at = (c->hash + op->seq) % ENTERED_KEPT;
	int space = op_space(op);

	if (e->entries[at].comm == c && e->entries[at].seq == op->seq && e->entries[at].space == space)
		return e->entries[at].ns;
	if (is_kept(e->entries[at].comm, c))
		return last_ns(op);
	e->entries[at].comm = c;
	e->entries[at].space = space;
	e->entries[at].seq = op->seq;
	return e->entries[at].ns = last_ns(op);
}

static uint64_t crashed_ns(struct entered *e, const struct comm *c)
{
	uint64_t last = 0;

	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb))
		if (mb->proc->dead && mb->proc->exit_ns > last && death_is_fault_of(&e->deaths, e->m, mb->proc))
			last = mb->proc->exit_ns;
	return last;
}

uint64_t entered_crashed_ns(struct entered *e, const struct comm *c)
{
	size_t at = c->hash % ENTERED_KEPT;

	if (e->crashes[at].comm == c)
		return e->crashes[at].ns;
	if (is_kept(e->crashes[at].comm, c))
		return crashed_ns(e, c);
	e->crashes[at].comm = c;
	return e->crashes[at].ns = crashed_ns(e, c);
}
