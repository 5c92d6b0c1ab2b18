/* SPDX-License-Identifier: Apache-2.0
 *
 * counters.c - see counters.h.
 */
#include "detect/rank/counters.h"

bool member_by_counters(const struct member *mb)
{
	return mb->samples.counted && !mb->last_call_ns && !mb->from_init && !mb->gone;
}

uint64_t counters_still_ns(const struct member *mb)
{
	const struct samples *s = &mb->samples;

	if (!member_by_counters(mb) || s->round != mb->proc->sample_rounds) /* the newest sample did not find it */
		return 0;
	return s->seen_ns > s->since_ns ? s->since_ns : 0;
}

/* It was last read before its peers did not move: it may have entered more since, and it cannot be read any more. */
static bool read_too_early(const struct member *mb, uint64_t peer_since_ns)
{
	return mb->proc->dead || mb->samples.seen_ns < peer_since_ns;
}

uint64_t counters_pending_seq(const struct member *mb)
{
	uint64_t seq = mb->entered_seq[SEQ_COLL], least = UINT64_MAX;

	if (!member_by_counters(mb))
		return seq;
	for (const struct member *o = mb->comm->members; o; o = member_next_in_comm(o)) {
		uint64_t since;

		if (o == mb || o->proc->dead)
			continue;
		since = counters_still_ns(o);
		if (!since || !read_too_early(mb, since))
			return seq;
		least = o->entered_seq[SEQ_COLL] < least ? o->entered_seq[SEQ_COLL] : least;
	}
	return least != UINT64_MAX && least > seq ? least - 1 : seq;
}

/* The peer that is ahead by the least shows best what comes next. */
static const struct member *nearest_ahead(const struct member *mb)
{
	const struct member *best = NULL;
	uint64_t n = mb->entered_seq[SEQ_COLL];

	for (const struct member *o = mb->comm->members; o; o = member_next_in_comm(o))
		if (counters_still_ns(o) && o->entered_seq[SEQ_COLL] > n &&
		    (!best || o->entered_seq[SEQ_COLL] < best->entered_seq[SEQ_COLL]))
			best = o;
	return best;
}

unsigned int counters_pending_kinds(const struct member *mb)
{
	const struct member *o = member_by_counters(mb) ? nearest_ahead(mb) : NULL;
	unsigned int kinds = 0;

	for (int k = 0; o && k < OP_KINDS_COUNTED; k++)
		if (o->samples.counters[k] > mb->samples.counters[k])
			kinds |= 1u << k;
	return kinds;
}

enum op_kind counters_kind(const struct member *mb, unsigned int kinds)
{
	const struct member *o = nearest_ahead(mb);
	uint64_t most = 0, missing;
	int best = OP_ALLREDUCE;

	for (int k = 0; o && k < OP_KINDS_COUNTED; k++) {
		missing = kinds & 1u << k ? o->samples.counters[k] - mb->samples.counters[k] : 0;
		if (missing > most) {
			most = missing;
			best = k;
		}
	}
	return best;
}

uint64_t counters_since_ns(const struct comm *c, uint64_t seq)
{
	uint64_t since = 0, one;

	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb)) {
		one = mb->entered_seq[SEQ_COLL] > seq ? counters_still_ns(mb) : 0;
		if (one && (!since || one < since))
			since = one;
	}
	return since;
}

bool counters_op(const struct comm *c, uint64_t seq, enum op_kind *ret)
{
	unsigned int kinds;

	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb)) {
		kinds = mb->entered_seq[SEQ_COLL] == seq ? counters_pending_kinds(mb) : 0;
		if (!kinds || kinds & (kinds - 1))
			continue;
		*ret = counters_kind(mb, kinds);
		return true;
	}
	return false;
}

bool proc_by_counters(const struct proc *p)
{
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
		if (member_by_counters(mb))
			return true;
	return false;
}
