/* SPDX-License-Identifier: Apache-2.0
 *
 * stalled_transfer.c - see stalled_transfer.h. Operations are told apart by NCCL's own number of them, which is the
 * same on all ranks.
 */
#include "detect/transfer/stalled_transfer.h"

#define TRANSPORT_NET 2
#define FRESH_NS 3000000000ull

bool proxy_part_is_network(const struct proxy_part *p)
{
	return p->transport == TRANSPORT_NET && !(p->op_count & 1) &&
	       p->state; /* odd ones are Send and Recv, numbered otherwise */
}

/* The oldest operation the member is in. */
static const struct proxy_part *oldest_part(const struct member *mb)
{
	const struct proxy_part *best = NULL;

	for (int i = 0; i < mb->proxies.n; i++)
		if (proxy_part_is_network(&mb->proxies.parts[i]) &&
		    (!best || mb->proxies.parts[i].op_count < best->op_count))
			best = &mb->proxies.parts[i];
	return best;
}

bool member_in_transfer(const struct member *mb, uint64_t op_count)
{
	for (int i = 0; i < mb->proxies.n; i++)
		if (proxy_part_is_network(&mb->proxies.parts[i]) && mb->proxies.parts[i].op_count == op_count)
			return true;
	return false;
}

bool member_transfers(const struct member *mb)
{
	return oldest_part(mb);
}

static bool is_sampled(const struct model *m, const struct member *mb)
{
	return !mb->gone && mb->samples.counted && mb->proxies.n_looks && m->now_ns - mb->proxies.seen_ns < FRESH_NS;
}

/* Of a dead one nothing newer will come. */
static bool is_known(const struct model *m, const struct member *mb)
{
	return mb->proc->dead ? mb->samples.counted : is_sampled(m, mb);
}

bool member_transfers_now(const struct model *m, const struct member *mb)
{
	return is_sampled(m, mb) && oldest_part(mb);
}

bool transfers_known(const struct model *m, const struct comm *c)
{
	if (!c->by_rank || c->n_seen != c->nranks)
		return false;
	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm)
		if (!mb->gone && !is_known(m, mb))
			return false;
	return true;
}

/* Operations behind this one, on the connection that has most of them. */
static uint32_t queued_behind(const struct member *mb, uint64_t op_count)
{
	uint32_t most = 0;

	for (int i = 0; i < mb->proxies.n; i++)
		if (mb->proxies.parts[i].op_count == op_count && mb->proxies.parts[i].queued > most)
			most = mb->proxies.parts[i].queued;
	return most;
}

/* The least count of entered operations among those that are in it: it was among them. */
static uint64_t entered_by_holders(const struct comm *c, uint64_t op_count)
{
	uint64_t least = UINT64_MAX;

	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm)
		if (member_in_transfer(mb, op_count) && mb->entered_seq[SEQ_COLL] < least)
			least = mb->entered_seq[SEQ_COLL];
	return least;
}

static bool all_entered(const struct comm *c, uint64_t op_count)
{
	uint64_t least = entered_by_holders(c, op_count);

	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm)
		if (!mb->gone && !member_in_transfer(mb, op_count) && mb->entered_seq[SEQ_COLL] < least)
			return false;
	return true;
}

/* Of every member all is known, and some are in an operation that everybody entered. */
bool stalled_transfer_find(const struct model *m, const struct comm *c, struct stalled_transfer *ret)
{
	const struct proxy_part *p, *oldest = NULL;

	if (!c->by_rank || c->nranks < 2 || c->n_seen != c->nranks)
		return false;
	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm) {
		if (!mb->gone && !is_known(m, mb))
			return false;
		p = mb->gone || mb->proc->dead ? NULL : oldest_part(mb);
		if (p && (!oldest || p->op_count < oldest->op_count))
			oldest = p;
	}
	if (!oldest || !all_entered(c, oldest->op_count))
		return false;
	*ret = (struct stalled_transfer){ .comm = c, .op_count = oldest->op_count, .coll = oldest->coll };
	return true;
}

/* What a stopped or starved proxy has not taken up is in no queue: whoever knows of most behind it is right. */
uint64_t stalled_transfer_seq(const struct stalled_transfer *j)
{
	uint64_t seq = UINT64_MAX, one;

	for (const struct member *mb = j->comm->members; mb; mb = mb->next_in_comm) {
		if (!member_in_transfer(mb, j->op_count))
			continue;
		one = mb->entered_seq[SEQ_COLL] - queued_behind(mb, j->op_count);
		seq = one && one - 1 < seq ? one - 1 : seq;
	}
	return seq == UINT64_MAX ? 0 : seq;
}

uint64_t transfers_unchanged_since(const struct comm *c, bool proxies)
{
	uint64_t since = 0;

	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm) {
		uint64_t one = mb->samples.since_ns, two = proxies ? mb->proxies.since_ns : 0;

		if (mb->gone)
			continue;
		if (mb->proc->dead) {
			since = mb->proc->exit_ns > since ? mb->proc->exit_ns : since;
			continue;
		}
		if (mb->samples.seen_ns <= one || (proxies && mb->proxies.seen_ns <= two))
			return 0;
		since = one > since ? one : since;
		since = two > since ? two : since;
	}
	return since;
}

void stalled_transfer_culprit(struct stalled_transfer *j)
{
	for (const struct member *mb = j->comm->members; mb; mb = mb->next_in_comm) {
		enum proxy_thread what = mb->gone ? PROXY_UNSEEN : proxy_thread_judge(mb);

		if (what < PROXY_ASLEEP || what < j->why)
			continue;
		j->culprit = what == j->why ? NULL : mb;
		j->why = what;
	}
}
