/* SPDX-License-Identifier: Apache-2.0
 *
 * stalled_transfer.c - see stalled_transfer.h. Operations are distinguished by NCCL's own number of them, which is the
 * same on all ranks. Samples of one process after another are no snapshot: nothing is concluded but from what was the
 * same in two. A rank is a culprit only when its own proxy does not work; else a link is named, and no rank. (A proxy
 * that waits for a CPU is proxy_starved.c's.) What may be a slow machine proves nothing: a receiver must have had the
 * CPU, polled, and found nothing.
 */
#include "detect/transfer/stalled_transfer.h"

#include "detect/phrase.h"
#include "detect/rank/teardown.h"

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
	return !mb->gone && mb->samples.counted && mb->proxies.n_samples && m->now_ns - mb->proxies.seen_ns < FRESH_NS;
}

/* Of a dead process nothing newer will come. */
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
	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb))
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

/* The least count of entered operations among those that are in it: it is one of these. */
static uint64_t entered_by_holders(const struct comm *c, uint64_t op_count)
{
	uint64_t least = UINT64_MAX;

	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb))
		if (member_in_transfer(mb, op_count) && mb->entered_seq[SEQ_COLL] < least)
			least = mb->entered_seq[SEQ_COLL];
	return least;
}

static bool all_entered(const struct comm *c, uint64_t op_count)
{
	uint64_t least = entered_by_holders(c, op_count);

	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb))
		if (!mb->gone && !member_in_transfer(mb, op_count) && mb->entered_seq[SEQ_COLL] < least)
			return false;
	return true;
}

/* Of every member all is known, and some are in an operation that all entered. */
bool stalled_transfer_find(const struct model *m, const struct comm *c, struct stalled_transfer *ret)
{
	const struct proxy_part *p, *oldest = NULL;

	if (!c->by_rank || c->nranks < 2 || c->n_seen != c->nranks)
		return false;
	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb)) {
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

/* What a stopped or starved proxy has not taken up is in no queue: the member that knows of most behind it is right. */
uint64_t stalled_transfer_seq(const struct stalled_transfer *t)
{
	uint64_t seq = UINT64_MAX, one;

	for (const struct member *mb = t->comm->members; mb; mb = member_next_in_comm(mb)) {
		if (!member_in_transfer(mb, t->op_count))
			continue;
		one = mb->entered_seq[SEQ_COLL] - queued_behind(mb, t->op_count);
		seq = one && one - 1 < seq ? one - 1 : seq;
	}
	return seq == UINT64_MAX ? 0 : seq;
}

/* A call that a probe saw is a change as well: what was read of the proxy before it is of the operation before. */
static uint64_t changed_ns(const struct member *mb)
{
	return mb->last_call_ns > mb->proxies.since_ns ? mb->last_call_ns : mb->proxies.since_ns;
}

uint64_t transfers_unchanged_since(const struct comm *c, bool proxies)
{
	uint64_t since = 0;

	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb)) {
		uint64_t one = mb->samples.since_ns, two = proxies ? changed_ns(mb) : 0;

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

/* The member whose proxy is worst off, and how; of two that are equally so none. */
static void culprit_find(struct stalled_transfer *t)
{
	for (const struct member *mb = t->comm->members; mb; mb = member_next_in_comm(mb)) {
		enum proxy_thread what = mb->gone ? PROXY_UNSEEN : proxy_thread_judge(mb);

		if (what < PROXY_ASLEEP || what < t->why)
			continue;
		t->culprit = what == t->why ? NULL : mb;
		t->why = what;
	}
}

/* --- its links --- */

static const struct proxy_part *part_to(const struct member *mb, uint64_t op_count, bool send, int peer, int channel)
{
	for (int i = 0; i < mb->proxies.n; i++) {
		const struct proxy_part *p = &mb->proxies.parts[i];

		if (proxy_part_is_network(p) && p->op_count == op_count && proxy_part_sends(p) == send &&
		    p->peer == peer && p->channel == channel)
			return p;
	}
	return NULL;
}

static struct transfer_link link_of(const struct stalled_transfer *t, const struct member *mb,
				    const struct proxy_part *p)
{
	const struct member *o = p->peer < t->comm->nranks ? t->comm->by_rank[p->peer] : NULL;
	struct transfer_link l = { .channel = p->channel };

	if (!o || o == mb)
		return l;
	l.from = proxy_part_sends(p) ? mb : o;
	l.to = proxy_part_sends(p) ? o : mb;
	l.send = proxy_part_sends(p) ? p : part_to(o, t->op_count, true, mb->rank, p->channel);
	l.recv = proxy_part_sends(p) ? part_to(o, t->op_count, false, mb->rank, p->channel) : p;
	l.side = link_delaying_side(l.send, l.recv);
	return l;
}

/* What shows most: with a culprit a link of its own, best one that its end delays; else any that one side delays. */
static int link_worth(const struct stalled_transfer *t, const struct transfer_link *l)
{
	bool sends = l->from == t->culprit, receives = l->to == t->culprit;

	if (!t->culprit)
		return l->side != LINK_QUIET ? 2 : 0;
	if (!sends && !receives)
		return 0;
	if ((sends && l->side == LINK_SENDER) || (receives && l->side == LINK_RECEIVER))
		return 4;
	return l->side != LINK_QUIET ? 3 : sends && l->send ? 2 : 1;
}

/* Every connection of the operation once, from its sending end where that is there: the best to show, and how many. */
static void links_read(struct stalled_transfer *t)
{
	int most = 0;

	for (const struct member *mb = t->comm->members; mb; mb = member_next_in_comm(mb))
		for (int i = 0; !mb->gone && i < mb->proxies.n; i++) {
			const struct proxy_part *p = &mb->proxies.parts[i];
			struct transfer_link l;

			if (!proxy_part_is_network(p) || p->op_count != t->op_count)
				continue;
			l = link_of(t, mb, p);
			if (!l.from || (!proxy_part_sends(p) && l.send))
				continue;
			t->n_delayed += l.side != LINK_QUIET;
			if (link_worth(t, &l) <= most)
				continue;
			most = link_worth(t, &l);
			t->link = l;
		}
}

enum link_side stalled_transfer_side(const struct stalled_transfer *t)
{
	if (!t->culprit || !t->link.from)
		return t->link.side;
	return t->link.from == t->culprit ? LINK_SENDER : LINK_RECEIVER;
}

/* --- is it proven? --- */

/* What its thread did was seen since nothing moves, not before: one that was stopped then polled until then. */
static bool seen_since(const struct member *mb, uint64_t since_ns)
{
	const struct task *t = proxy_task(mb);

	return t && (proxy_at_rest(t) || (t->seen_ns > since_ns && t->prev_seen_ns >= since_ns));
}

/* The network delays nothing whose receiver had no CPU to poll, or whose sender had none to send. */
static bool link_proven(const struct model *m, const struct stalled_transfer *t, const struct transfer_link *l)
{
	enum proxy_thread from, to;

	if (!l->from || !seen_since(l->from, t->since_ns) || !seen_since(l->to, t->since_ns))
		return false;
	from = proxy_thread_judge(l->from);
	to = proxy_thread_judge(l->to);
	if (from == PROXY_POLLS && to == PROXY_POLLS)
		return true;
	return from >= PROXY_POLLS_LATE && to >= PROXY_POLLS_LATE && m->now_ns >= t->since_ns + TRANSFER_SAMPLES_NS(m);
}

static bool is_proven(const struct model *m, struct stalled_transfer *t)
{
	culprit_find(t);
	t->since_ns = transfers_unchanged_since(t->comm, true);
	if (!t->since_ns || m->now_ns < t->since_ns + m->hang_floor_ns)
		return false;
	if (!t->culprit && t->why) /* two are kept from work: either may be at fault */
		return false;
	if (t->why == PROXY_DEAD && death_is_teardown(m, t->culprit->proc))
		return false;
	links_read(t);
	return t->culprit || (t->n_delayed && link_proven(m, t, &t->link));
}

bool stalled_transfer_proven(const struct model *m, struct stalled_transfer *ret)
{
	*ret = (struct stalled_transfer){ 0 };
	for (const struct comm *c = m->comms; c; c = c->next) {
		struct stalled_transfer t;

		if (!stalled_transfer_find(m, c, &t) || !is_proven(m, &t))
			continue;
		if (ret->comm && (ret->culprit ? !t.culprit || ret->since_ns <= t.since_ns
					       : !t.culprit && ret->since_ns <= t.since_ns))
			continue;
		*ret = t;
	}
	return ret->comm;
}

/* --- evidence --- */

static const char *progress_text(struct finding_list *found, const struct proxy_part *p, const char *none)
{
	static const char *const names[] = { "posted ", ", received ", ", transmitted ", ", done ", " of " };
	char text[160] = "";

	if (!p)
		return none;
	for (int i = 0; i < 5; i++) {
		const uint64_t values[] = { p->posted, p->received, p->transmitted, p->done, p->nsteps };

		if (i == 1 && proxy_part_sends(p))
			continue;
		phrase_add(text, sizeof(text), names[i]);
		phrase_number(text, sizeof(text), values[i]);
	}
	return finding_list_text(found, text);
}

void stalled_transfer_note_link(struct finding *f, struct finding_list *found, const struct stalled_transfer *t)
{
	static const char *const sides[] = { "gpu", "sender", "network", "receiver" };
	const struct transfer_link *l = &t->link;

	if (!l->from)
		return;
	finding_note_text(f, EVIDENCE_SIDE, sides[stalled_transfer_side(t)]);
	finding_note(f, EVIDENCE_SENDER, proc_rank(l->from->proc));
	finding_note(f, EVIDENCE_RECEIVER, proc_rank(l->to->proc));
	finding_note(f, EVIDENCE_CHANNEL, l->channel);
	finding_note_text(f, EVIDENCE_SENT, progress_text(found, l->send, "no such operation active"));
	finding_note_text(f, EVIDENCE_RECEIVED, progress_text(found, l->recv, "no such operation active"));
}

void stalled_transfer_note(struct finding *f, struct finding_list *found, const struct model *m, const struct proc *p)
{
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb)) {
		struct stalled_transfer t;

		if (mb->gone || !stalled_transfer_find(m, mb->comm, &t) || !member_in_transfer(mb, t.op_count))
			continue;
		t.culprit = mb;
		links_read(&t);
		stalled_transfer_note_link(f, found, &t);
		return;
	}
}
