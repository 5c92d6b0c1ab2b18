/* SPDX-License-Identifier: Apache-2.0
 *
 * report_member.c - how far a rank is in each of its communicators: by NCCL's counters, and by its calls where they
 * are seen.
 */
#include "base/hash.h"
#include "base/larger.h"
#include "cluster/report_part.h"
#include "detect/hang/p2p.h"

#define COMMS_MAX 64  /* of a process; further ones are counted */
#define SIGNATURES 64 /* collectives under one hash */
#define PASSED_NS 500000000ull

static void samples_put(struct report_block *b, Cluster__Member *to, const struct samples *s, uint64_t now_ns)
{
	to->has_sampled_age_ns = to->has_same_age_ns = 1;
	to->sampled_age_ns = report_age(now_ns, s->seen_ns);
	to->same_age_ns = report_age(now_ns, s->since_ns);
	to->has_before_age_ns = s->after_ns != 0;
	to->before_age_ns = report_age(now_ns, s->after_ns);
	to->has_async_result = s->async_result != 0;
	to->async_result = s->async_result;
	to->has_init_state = 1;
	to->init_state = s->init_state;
	to->has_aborted = s->aborted;
	to->aborted = s->aborted;
	to->counters = s->counted ? report_alloc(b, OP_KINDS_COUNTED * sizeof(uint64_t)) : NULL;
	for (int k = 0; to->counters && k < OP_KINDS_COUNTED; k++)
		to->counters[to->n_counters++] = s->counters[k];
}

/* The newest collective that is over, and the newest that is reached. */
static void ends_put(Cluster__Member *to, const struct member *mb, uint64_t now_ns)
{
	for (const struct op *op = mb->ops_tail; op && !to->has_completed; op = op->prev) {
		if (op_space(op) != SEQ_COLL || !op->enqueue_ns)
			continue;
		if (!to->has_reached && op_reached(op)) {
			to->has_reached = 1;
			to->reached = op->seq + 1;
		}
		if (!op->end_ns)
			continue;
		to->has_completed = to->has_completed_age_ns = to->has_completed_error_ns = 1;
		to->completed = op->seq + 1;
		to->completed_age_ns = report_age(now_ns, op->end_ns);
		to->completed_error_ns = op->end_error_ns;
	}
}

/* Of operations whose numbers are sure: peers number theirs the same. */
static void signatures_put(Cluster__Member *to, const struct member *mb, const struct model *m)
{
	uint64_t upto = mb->entered_seq[SEQ_COLL] & ~(uint64_t)(SIGNATURES - 1), hash = 0, n = 0;

	for (const struct op *op = mb->ops; op && upto; op = op->next) {
		if (op_space(op) != SEQ_COLL || op->seq + SIGNATURES < upto || op->seq >= upto ||
		    !op_number_sure(m, op))
			continue;
		hash = hash_mix(hash, op->signature);
		n++;
	}
	if (n != SIGNATURES)
		return;
	to->has_signatures_to = to->has_signatures_hash = 1;
	to->signatures_to = upto;
	to->signatures_hash = hash;
}

/* Of what waits together in one communicator the time counts once, with the first: from when it was ready, or the one
 * before it was seen to be over. */
static uint64_t own_part_ns(const struct op *op)
{
	uint64_t from = larger(op->arrive_bound_ns, op->prev ? op->prev->end_ns : 0);

	return op->end_ns > from ? op->end_ns - from : 0;
}

/* Those that ended since the report before: work on a stream ends in order, so the newest are the last. */
static void durations_put(Cluster__Member *to, const struct member *mb, uint64_t since_ns)
{
	to->has_ended = to->has_ended_ns = to->has_ended_error_ns = since_ns != 0;
	to->has_transfers_ended = to->has_transfers_ended_ns = since_ns != 0;
	for (const struct op *op = mb->ops_tail; op && since_ns; op = op->prev) {
		if (!op->count || !op->end_ns)
			continue;
		if (op->end_ns <= since_ns)
			return;
		if (op_kind_p2p(op->kind)) {
			to->transfers_ended++;
			to->transfers_ended_ns += own_part_ns(op);
		} else if (op_space(op) == SEQ_COLL) {
			to->ended++;
			to->ended_ns += own_part_ns(op);
			to->ended_error_ns += smaller(op->end_error_ns, own_part_ns(op));
		}
	}
}

/* Of a rank whose host waits: before that it may come yet, and it would be asked each second. */
static void passed_put(Cluster__Peer *to, const struct member *mb, int peer, uint64_t now_ns)
{
	if (!proc_waits(mb->proc) || now_ns < mb->proc->last_call_ns + PASSED_NS)
		return;
	to->has_sends_passed = to->has_recvs_passed = 1;
	to->sends_passed = p2p_passed(mb->proc, mb, OP_SEND, peer);
	to->recvs_passed = p2p_passed(mb->proc, mb, OP_RECV, peer);
}

/* Of one that has transfers with more peers than a message has room for, none is said: who reads it would miss some. */
static void peers_put(struct report_block *b, Cluster__Member *to, const struct member *mb, uint64_t now_ns)
{
	static const Cluster__Peer none = CLUSTER__PEER__INIT;
	int n = 0;

	for (int r = 0; r < mb->n_p2p; r++)
		n += mb->p2p[r].entered[0] || mb->p2p[r].entered[1];
	if (!n || n > (int)REPORT_CALLS_MAX || !member_comparable(mb, -1))
		return;
	to->peers = report_list(b, n);
	for (int r = 0; r < mb->n_p2p && to->peers; r++) {
		const struct p2p_seq *s = &mb->p2p[r];
		Cluster__Peer *one = s->entered[0] || s->entered[1] ? report_alloc(b, sizeof(*one)) : NULL;

		if (!one)
			continue;
		*one = none;
		one->has_rank = one->has_sends = one->has_recvs = 1;
		one->rank = (uint32_t)r;
		one->sends = s->entered[0];
		one->recvs = s->entered[1];
		passed_put(one, mb, r, now_ns);
		to->peers[to->n_peers++] = one;
	}
}

static void calls_put(struct report_block *b, Cluster__Member *to, const struct member *mb, const struct model *m)
{
	uint64_t now_ns = m->now_ns;

	to->has_entered = to->has_entered_age_ns = 1;
	to->entered = mb->entered_seq[SEQ_COLL];
	to->entered_age_ns = report_age(now_ns, mb->last_call_ns);
	ends_put(to, mb, now_ns);
	durations_put(to, mb, b->since_ns);
	signatures_put(to, mb, m);
	peers_put(b, to, mb, now_ns);
}

static Cluster__Member *member_of(struct report_block *b, const struct member *mb, const struct model *m)
{
	static const Cluster__Member none = CLUSTER__MEMBER__INIT;
	Cluster__Member *to = report_alloc(b, sizeof(*to));

	if (!to)
		return NULL;
	*to = none;
	to->has_addr = to->has_hash = to->has_rank = to->has_nranks = to->has_device = 1;
	to->addr = mb->addr;
	to->hash = mb->comm->hash;
	to->rank = mb->rank;
	to->nranks = mb->comm->nranks;
	to->device = mb->device;
	if (mb->samples.n)
		samples_put(b, to, &mb->samples, m->now_ns);
	if (mb->last_call_ns && mb->seq_known)
		calls_put(b, to, mb, m);
	return to;
}

void report_members(struct report_block *b, const struct proc *p, Cluster__Process *to, const struct model *m)
{
	to->comms = report_list(b, COMMS_MAX);
	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc) {
		Cluster__Member *one;

		if (mb->gone || !mb->comm->hash)
			continue;
		one = to->comms && to->n_comms < COMMS_MAX ? member_of(b, mb, m) : NULL;
		if (one)
			to->comms[to->n_comms++] = one;
		else
			b->left_out++;
	}
}
