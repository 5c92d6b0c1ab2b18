/* SPDX-License-Identifier: Apache-2.0
 *
 * stalled_op.c - see stalled_op.h. Looks at one process after another are no snapshot; so nothing is concluded but from
 * what was the same at two looks. A rank is named only when its own proxy does not work; else the pair is, and nobody.
 * (One that waits for a CPU is proxy_starved.c's.) What cannot be told apart from a slow machine is not told: a
 * receiver must have had the CPU, and looked, and found nothing.
 */
#include "detect/hang/stalled_op.h"

#include <errno.h>

#include "detect/rank/activity.h"
#include "detect/hang/report.h"
#include "detect/transfer/stalled_transfer.h"
#include "detect/transfer/link_cause.h"
#include "detect/transfer/links.h"
#include "detect/phrase.h"

#define LATE_SAMPLES 4 /* hang floors: more than two looks */
#define CONFIDENCE_RANK 0.9
#define CONFIDENCE_PAIR 0.8

struct link {
	const struct member *from, *to;
	const struct proxy_part *send, *recv;
	int channel;
	enum link_side hold;
};

/* --- its links --- */

static const struct proxy_part *part_to(const struct member *mb, uint64_t op_count, bool send, int peer, int channel)
{
	for (int i = 0; i < mb->proxies.n; i++) {
		const struct proxy_part *p = &mb->proxies.parts[i];

		if (proxy_part_is_network(p) && p->op_count == op_count && p->is_send == send && p->peer == peer &&
		    p->channel == channel)
			return p;
	}
	return NULL;
}

static struct link link_of(const struct stalled_transfer *j, const struct member *mb, const struct proxy_part *p)
{
	const struct member *o = p->peer < j->comm->nranks ? j->comm->by_rank[p->peer] : NULL;
	struct link l = { .channel = p->channel };

	if (!o || o == mb)
		return l;
	l.from = p->is_send ? mb : o;
	l.to = p->is_send ? o : mb;
	l.send = p->is_send ? p : part_to(o, j->op_count, true, mb->rank, p->channel);
	l.recv = p->is_send ? part_to(o, j->op_count, false, mb->rank, p->channel) : p;
	l.hold = link_delaying_side(l.send, l.recv);
	return l;
}

typedef void link_each(void *arg, const struct link *l);

/* Every connection of the operation once: from its sending end where that is there. */
static void links_each(const struct stalled_transfer *j, link_each *each, void *arg)
{
	for (const struct member *mb = j->comm->members; mb; mb = mb->next_in_comm)
		for (int i = 0; !mb->gone && i < mb->proxies.n; i++) {
			const struct proxy_part *p = &mb->proxies.parts[i];
			struct link l;

			if (!proxy_part_is_network(p) || p->op_count != j->op_count)
				continue;
			l = link_of(j, mb, p);
			if (l.from && (p->is_send || !l.send))
				each(arg, &l);
		}
}

struct choice {
	const struct stalled_transfer *transfer;
	struct link best;
	int rank, n_delayed;
};

/* What tells most: with a culprit a link of its own, best one that is held up at its end; else any that is held up. */
static int link_worth(const struct stalled_transfer *j, const struct link *l)
{
	bool sends = l->from == j->culprit, receives = l->to == j->culprit;

	if (!j->culprit)
		return l->hold != LINK_QUIET ? 2 : 0;
	if (!sends && !receives)
		return 0;
	if ((sends && l->hold == LINK_SENDER) || (receives && l->hold == LINK_RECEIVER))
		return 4;
	return l->hold != LINK_QUIET ? 3 : sends && l->send ? 2 : 1;
}

static void link_choose(void *arg, const struct link *l)
{
	struct choice *c = arg;
	int worth = link_worth(c->transfer, l);

	c->n_delayed += l->hold != LINK_QUIET;
	if (worth <= c->rank)
		return;
	c->rank = worth;
	c->best = *l;
}

/* A rank in trouble holds up what it has a part in: with a culprit this is the side it is on. */
static enum link_side side_of(const struct stalled_transfer *j, const struct link *l)
{
	if (!j->culprit || !l->from)
		return l->hold;
	return l->from == j->culprit ? LINK_SENDER : LINK_RECEIVER;
}

/* What its thread did was seen since nothing moves, not before: one that was stopped then looked about until then. */
static bool seen_since(const struct member *mb, uint64_t since_ns)
{
	const struct task *t = proxy_task(mb);

	return t && (proxy_at_rest(t) || (t->seen_ns > since_ns && t->prev_seen_ns >= since_ns));
}

/* Nothing at all is held up by a network whose receiver had no CPU to look, or whose sender had none to send. */
static bool proven(const struct model *m, const struct stalled_transfer *j, const struct link *l)
{
	enum proxy_thread from, to;

	if (!l->from || !seen_since(l->from, j->since_ns) || !seen_since(l->to, j->since_ns))
		return false;
	from = proxy_thread_judge(l->from);
	to = proxy_thread_judge(l->to);
	if (from == PROXY_POLLS && to == PROXY_POLLS)
		return true;
	return from >= PROXY_POLLS_LATE && to >= PROXY_POLLS_LATE &&
	       m->now_ns >= j->since_ns + LATE_SAMPLES * m->hang_floor_ns;
}

/* --- telling --- */

static const char *const sides[] = { "gpu", "sender", "network", "receiver" };

static const enum finding_cause side_causes[] = { CAUSE_GPU, CAUSE_SENDER, CAUSE_NETWORK, CAUSE_RECEIVER };

static const enum finding_cause causes[] = {
	[PROXY_ASLEEP] = CAUSE_PROXY_ASLEEP,
	[PROXY_BLOCKED] = CAUSE_PROXY_BLOCKED,
	[PROXY_STOPPED] = CAUSE_STOPPED,
	[PROXY_DEAD] = CAUSE_DEAD,
};

static const char *progress_text(struct finding_list *found, const struct proxy_part *p, const char *none)
{
	static const char *const names[] = { "posted ", ", received ", ", transmitted ", ", done ", " of " };
	char text[160] = "";

	if (!p)
		return none;
	for (int i = 0; i < 5; i++) {
		const uint64_t values[] = { p->posted, p->received, p->transmitted, p->done, p->nsteps };

		if (i == 1 && p->is_send)
			continue;
		phrase_add(text, sizeof(text), names[i]);
		phrase_number(text, sizeof(text), values[i]);
	}
	return finding_list_text(found, text);
}

static void link_note(struct finding *f, struct finding_list *found, const struct stalled_transfer *j,
		      const struct link *l)
{
	if (!l->from)
		return;
	finding_note_text(f, EVIDENCE_SIDE, sides[side_of(j, l)]);
	finding_note(f, EVIDENCE_SENDER, proc_rank(l->from->proc));
	finding_note(f, EVIDENCE_RECEIVER, proc_rank(l->to->proc));
	finding_note(f, EVIDENCE_CHANNEL, l->channel);
	finding_note_text(f, EVIDENCE_SENT, progress_text(found, l->send, "no such operation active"));
	finding_note_text(f, EVIDENCE_RECEIVED, progress_text(found, l->recv, "no such operation active"));
}

/* Of a pair without a culprit: a port of one of the two. */
static uint64_t port_key(const struct model *m, const struct finding_list *found, const struct link *l)
{
	uint64_t key = l->from ? link_cause_key(m, found, l->from->proc) : 0;

	return key || !l->from ? key : link_cause_key(m, found, l->to->proc);
}

static uint64_t cause_key(const struct finding_list *found, const struct stalled_transfer *j)
{
	enum finding_kind kind = j->why == PROXY_STOPPED ? FINDING_STOPPED : FINDING_D_STATE;
	const struct finding *f = j->culprit ? finding_list_of(found, kind, j->culprit->proc->key) : NULL;

	return f ? (f->caused_by_key ? f->caused_by_key : f->key) : 0;
}

static void transfer_fill(struct finding *f, const struct stalled_transfer *j, const struct choice *c)
{
	f->kind = FINDING_HANG;
	f->class = j->why == PROXY_STOPPED ? HANG_STOPPED
		   : j->why == PROXY_DEAD  ? HANG_PROCESS_DEAD
					   : HANG_INSIDE_NETWORK;
	f->cause = j->culprit ? causes[j->why] : side_causes[c->best.hold];
	f->has_op = j->coll < OP_KINDS_COUNTED;
	f->op = f->has_op ? (enum op_kind)j->coll : OP_ALLREDUCE;
	f->comm = j->comm->hash;
	f->seq = j->seq;
	f->peer = -1;
	f->since_ns = j->since_ns;
	f->confidence = j->culprit ? CONFIDENCE_RANK : CONFIDENCE_PAIR;
	f->key = finding_key(FINDING_HANG, f->comm, f->seq, 2000);
	if (j->culprit)
		finding_add_rank(f, proc_rank(j->culprit->proc), j->culprit->proc->key);
}

static int transfer_report(const struct model *m, const struct stalled_transfer *j, const struct choice *c,
			   struct finding_list *found)
{
	struct finding *f = finding_list_add(found);

	if (!f)
		return -ENOMEM;
	transfer_fill(f, j, c);
	f->caused_by_key = j->culprit ? cause_key(found, j) : port_key(m, found, &c->best);
	finding_note(f, EVIDENCE_WAITING_S, (m->now_ns - f->since_ns) * 1e-9);
	finding_note(f, EVIDENCE_N_WAITING, j->comm->nranks - f->n_ranks);
	link_note(f, found, j, &c->best);
	finding_note(f, EVIDENCE_N_LINKS_HELD, c->n_delayed);
	if (j->culprit)
		proxy_thread_note(f, j->culprit);
	finding_note(f, EVIDENCE_PROXY_OP_COUNT, j->op_count);
	finding_note_text(f, EVIDENCE_KNOWN_FROM, "proxies");
	return 0;
}

static bool transfer_unchanged(const struct model *m, struct stalled_transfer *j)
{
	j->since_ns = transfers_unchanged_since(j->comm, true);
	return j->since_ns && m->now_ns >= j->since_ns + m->hang_floor_ns;
}

static bool transfer_proven(const struct model *m, struct stalled_transfer *j, struct choice *c)
{
	stalled_transfer_culprit(j);
	if (!transfer_unchanged(m, j) || (!j->culprit && j->why)) /* two are kept from work: either may be at fault */
		return false;
	if (j->why == PROXY_DEAD && death_is_teardown(m, j->culprit->proc))
		return false;
	links_each(j, link_choose, c);
	return j->culprit || (c->n_delayed && proven(m, j, &c->best));
}

/* The one that is proven, with a culprit if there is such a one, else the oldest. False: none is. */
static bool stalled_transfer_proven(const struct model *m, struct stalled_transfer *ret, struct choice *ret_choice)
{
	*ret = (struct stalled_transfer){ 0 };
	for (const struct comm *c = m->comms; c; c = c->next) {
		struct stalled_transfer j;
		struct choice choice = { .transfer = &j };

		if (!stalled_transfer_find(m, c, &j) || !transfer_proven(m, &j, &choice))
			continue;
		if (ret->comm && (ret->culprit ? !j.culprit || ret->since_ns <= j.since_ns
					       : !j.culprit && ret->since_ns <= j.since_ns))
			continue;
		*ret = j;
		*ret_choice = choice;
	}
	ret_choice->transfer = ret;
	return ret->comm;
}

int stalled_transfer_report(const struct model *m, struct finding_list *found)
{
	struct choice choice = { 0 };
	struct stalled_transfer j;

	if (!stalled_transfer_proven(m, &j, &choice))
		return 0;
	j.seq = stalled_transfer_seq(&j);
	return transfer_report(m, &j, &choice, found);
}

/* --- for those who name ranks by other evidence --- */

/* Of the peers' transfers not all is known, on other nodes or not yet; but some went on in this communicator, and this
 * one is at an operation of it still: what brings it its data holds it up. */
static bool left_behind(const struct model *m, const struct member *mb)
{
	if (!member_transfers_now(m, mb) || transfers_known(m, mb->comm))
		return false;
	for (const struct member *o = mb->comm->members; o; o = o->next_in_comm)
		if (o != mb && !o->gone && o->entered_seq[SEQ_COLL] > mb->entered_seq[SEQ_COLL])
			return true;
	return false;
}

/* In that operation or in a later one, which waits for it. */
static bool is_inside(const struct model *m, const struct proc *p)
{
	struct stalled_transfer j;

	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc) {
		if (mb->gone)
			continue;
		if ((member_transfers(mb) || proxy_thread_judge(mb) == PROXY_STARVED) &&
		    stalled_transfer_find(m, mb->comm, &j))
			return true;
		if (left_behind(m, mb))
			return true;
	}
	return false;
}

void stalled_op_filter_roots(const struct model *m, struct wait_roots *found)
{
	struct choice choice = { 0 };
	struct stalled_transfer j;
	bool proven = (found->n_roots || found->n_cycles) && stalled_transfer_proven(m, &j, &choice);
	int n = 0;

	for (int i = 0; i < found->n_roots; i++) {
		const struct proc *p = found->roots[i].proc;

		if (proc_gone_or_stopped(p) || (!proven && !is_inside(m, p)))
			found->roots[n++] = found->roots[i];
	}
	found->n_roots = n;
	found->n_cycles = proven ? 0 : found->n_cycles;
}

bool stalled_op_undecided(const struct model *m, uint64_t since_ns)
{
	if (m->now_ns >= since_ns + LATE_SAMPLES * m->hang_floor_ns)
		return false;
	for (const struct proc *p = m->procs; p; p = p->next)
		for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
			if (!p->dead && !mb->gone && member_transfers(mb))
				return true;
	return false;
}

void stalled_transfer_note(struct finding *f, struct finding_list *found, const struct model *m, const struct proc *p)
{
	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc) {
		struct stalled_transfer j;
		struct choice c = { .transfer = &j };

		if (mb->gone || !stalled_transfer_find(m, mb->comm, &j) || !member_in_transfer(mb, j.op_count))
			continue;
		j.culprit = mb;
		links_each(&j, link_choose, &c);
		link_note(f, found, &j, &c.best);
		return;
	}
}
