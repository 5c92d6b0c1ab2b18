/* SPDX-License-Identifier: Apache-2.0
 *
 * unread.c - see unread.h. What such a rank entered is not known; but a rank blocked in the kernel does not go on, and
 * a communicator in which it is the only one not read, and all others stand still, waits for it: had it entered what
 * they did, they would have gone on. Only one such rank: of two nobody knows which belongs where.
 */
#include "detect/hang/unread.h"

#include <errno.h>

#include "detect/rank/call_site.h"
#include "detect/phrase.h"
#include "detect/hang/counters.h"

#define CONFIDENCE 0.7 /* what the others do elsewhere is not ruled out */

static const struct task *lock_holder(const struct proc *p)
{
	for (const struct task *t = p->tasks; t; t = t->next)
		if (t->blocked && t->mmap_lock_held)
			return t;
	return NULL;
}

static const struct proc *unread_rank(const struct model *m)
{
	const struct proc *one = NULL;

	for (const struct proc *p = m->procs; p; p = p->next) {
		if (p->dead || p->is_child || p->rank < 0 || p->members || !lock_holder(p))
			continue;
		if (one)
			return NULL;
		one = p;
	}
	return one;
}

/* Since when all members that were read stand still at one number; 0 they do not. */
static uint64_t still_since(const struct comm *c)
{
	uint64_t lo, hi, since = 0, one;

	if (!c->by_rank || c->n_seen != c->nranks - 1 || !c->highest_seq[SEQ_COLL] || comm_span(c, SEQ_COLL, &lo, &hi))
		return 0;
	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm) {
		one = counters_still_ns(mb);
		if (!one)
			return 0;
		since = one > since ? one : since;
	}
	return since;
}

const struct comm *unread_comm(const struct model *m)
{
	const struct comm *best = NULL;

	for (const struct comm *c = m->comms; c; c = c->next)
		if (still_since(c) && (!best || c->highest_seq[SEQ_COLL] > best->highest_seq[SEQ_COLL]))
			best = c;
	return best;
}

/* Had it entered the one, it may wait in the other: what its peers entered last in each, where there is more than one.
 */
void unread_comms_note(struct finding *f, const struct model *m, struct finding_list *found)
{
	char names[256] = "";
	int n = 0;

	for (const struct comm *c = m->comms; c; c = c->next) {
		if (!still_since(c))
			continue;
		n++;
		phrase_place(names, sizeof(names), c->hash, c->highest_seq[SEQ_COLL] - 1);
	}
	if (n > 1)
		finding_note_text(f, EVIDENCE_COMM_ONE_OF, finding_list_text(found, names));
}

/* The counters say how many of each kind there were, not which was the last: the usual one, and that there is a choice.
 */
void unread_op_name(struct finding *f, const struct comm *c, struct finding_list *found)
{
	const uint64_t *n = c->members->samples.counters;
	char names[128] = "";
	int best = 0, n_kinds = 0;

	for (int k = 0; k < OP_KINDS_COUNTED; k++) {
		if (!n[k])
			continue;
		best = n[k] > n[best] ? k : best;
		phrase_add(names, sizeof(names), n_kinds++ ? "," : "");
		phrase_add(names, sizeof(names), op_kind_name(k));
	}
	f->has_op = true;
	f->seq = c->highest_seq[SEQ_COLL] - 1;
	f->op = (enum op_kind)best;
	if (n_kinds > 1)
		finding_note_text(f, EVIDENCE_OP_ONE_OF, finding_list_text(found, names));
}

static void waiting_note(struct finding *f, const struct model *m, const struct comm *c, struct finding_list *found)
{
	char ranks[256] = "";

	for (int r = 0; r < c->nranks; r++)
		if (c->by_rank[r])
			phrase_list(ranks, sizeof(ranks), proc_rank(c->by_rank[r]->proc));
	finding_note(f, EVIDENCE_WAITING_S, (m->now_ns - f->since_ns) * 1e-9);
	finding_note(f, EVIDENCE_N_WAITING, c->n_seen);
	finding_note_text(f, EVIDENCE_WAITING_RANKS, finding_list_text(found, ranks));
	finding_note_text(f, EVIDENCE_KNOWN_FROM, "counters");
	finding_note_text(f, EVIDENCE_OWN_COUNTERS, "not readable: mmap_lock is held");
	finding_note_text(f, EVIDENCE_SEQ_IS, "the last that peers entered; it may lack earlier ones too");
}

int unread_report(const struct model *m, struct finding_list *found)
{
	const struct proc *p = unread_rank(m);
	const struct comm *c = p ? unread_comm(m) : NULL;
	const struct finding *cause;
	struct finding *f;

	if (!c)
		return 0;
	f = finding_list_add(found);
	if (!f)
		return -ENOMEM;
	f->kind = FINDING_HANG;
	f->class = HANG_HOST_BLOCKED;
	f->cause = CAUSE_MMAP_LOCK;
	f->comm = c->hash;
	f->seq = c->highest_seq[SEQ_COLL] - 1;
	f->since_ns = still_since(c);
	f->confidence = CONFIDENCE;
	f->key = finding_key(FINDING_HANG, c->hash ^ proc_mix(p), f->seq, SEQ_COLL);
	finding_add_rank(f, proc_rank(p), p->key);
	cause = finding_list_of(found, FINDING_D_STATE, p->key);
	f->caused_by_key = cause ? (cause->caused_by_key ? cause->caused_by_key : cause->key) : 0;
	waiting_note(f, m, c, found);
	call_site_note(f, found, p);
	call_site_note_others(f, found, m);
	unread_op_name(f, c, found);
	unread_comms_note(f, m, found);
	return 0;
}
