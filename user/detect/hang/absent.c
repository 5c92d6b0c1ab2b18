/* SPDX-License-Identifier: Apache-2.0
 *
 * absent.c - see absent.h. On one host a rank without a process may as well be on another host: it is named where its
 * neighbours by local rank are here, or where it is the only one missing. In a merge of hosts' looks nobody spoke for
 * the missing ones: unobserved.
 */
#include "detect/hang/absent.h"

#include <errno.h>

#include "detect/rank/call_site.h"
#include "detect/phrase.h"
#include "detect/hang/counters.h"
#include "detect/hang/unread.h"

#define ENCLOSED 0.85 /* ranks before and behind it are here */
#define UNTOLD 0.4
#define ALL_OTHERS 0.6 /* all others are here: another host would have one rank alone */

struct absent {
	int n, ranks[FINDING_RANKS_MAX];
	double confidence;
	const struct comm *comm;
};

/* The job's own communicator: the largest, if it is as large as the job. */
static const struct comm *world_of(const struct model *m)
{
	const struct comm *best = NULL;
	int size = -1;

	for (const struct comm *c = m->comms; c; c = c->next)
		if (c->by_rank && c->highest_seq[SEQ_COLL] && (!best || c->nranks > best->nranks))
			best = c;
	for (const struct proc *p = m->procs; p; p = p->next)
		if (!p->is_child && p->world_size > size)
			size = p->world_size;
	return best && (size < 0 || best->nranks == size) ? best : NULL;
}

static bool has_process(const struct model *m, int rank)
{
	for (const struct proc *p = m->procs; p; p = p->next)
		if (!p->is_child && proc_rank(p) == rank)
			return true;
	return false;
}

/* Some rank behind it has a local rank that leaves room for it on this host. */
static bool is_enclosed(const struct model *m, int rank)
{
	for (const struct proc *p = m->procs; p; p = p->next)
		if (!p->is_child && p->rank > rank && p->local_rank >= 0 && rank >= p->rank - p->local_rank)
			return true;
	return false;
}

/* Every member that is seen stood still from one look to the next, and no call of any is seen. */
static bool all_still(const struct model *m)
{
	for (const struct proc *p = m->procs; p; p = p->next)
		for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
			if (!mb->gone && mb->samples.counted && !counters_still_ns(mb))
				return false;
	return true;
}

/* Of hosts' own looks, each at what was asked for there. */
static bool is_merge(const struct model *m)
{
	return m->merged;
}

static void missing_find(const struct model *m, const struct comm *c, struct absent *a)
{
	bool enclosed = true;

	*a = (struct absent){ .comm = c };
	for (int r = 0; r < c->nranks && a->n < FINDING_RANKS_MAX; r++) {
		if (c->by_rank[r] || has_process(m, r))
			continue;
		enclosed &= is_enclosed(m, r);
		a->ranks[a->n++] = r;
	}
	if (4 * a->n > c->nranks) /* that many do not die unseen */
		enclosed = false;
	a->confidence = enclosed ? ENCLOSED : a->n == 1 && c->n_seen == c->nranks - 1 ? ALL_OTHERS : 0;
}

static void note_others(struct finding *f, struct finding_list *found, const struct comm *c)
{
	char ranks[256] = "";

	for (int r = 0; r < c->nranks; r++)
		if (c->by_rank[r])
			phrase_list(ranks, sizeof(ranks), proc_rank(c->by_rank[r]->proc));
	finding_note(f, EVIDENCE_N_WAITING, c->n_seen);
	finding_note_text(f, EVIDENCE_WAITING_RANKS, finding_list_text(found, ranks));
	finding_note_text(f, EVIDENCE_KNOWN_FROM, "counters");
}

static struct finding *finding_of(const struct absent *a, enum finding_kind kind, struct finding_list *found)
{
	struct finding *f = finding_list_add(found);

	if (!f)
		return NULL;
	f->kind = kind;
	f->comm = a->comm->hash;
	f->key = finding_key(kind, a->comm->hash, a->ranks[0], 4000);
	for (int i = 0; i < a->n; i++)
		finding_add_rank(f, a->ranks[i], 0);
	finding_note(f, EVIDENCE_COMM_SIZE, a->comm->nranks);
	finding_note(f, EVIDENCE_N_MISSING, a->comm->nranks - a->comm->n_seen);
	return f;
}

static uint64_t still_since(const struct comm *c)
{
	uint64_t since = 0, one;

	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm) {
		one = counters_still_ns(mb);
		since = one > since ? one : since;
	}
	return since;
}

static int gone_report(const struct model *m, const struct absent *a, struct finding_list *found)
{
	const struct comm *waits = a->n == 1 ? unread_comm(m) : NULL;
	struct finding *f = finding_of(a, FINDING_HANG, found);

	if (!f)
		return -ENOMEM;
	f->class = HANG_PROCESS_DEAD;
	f->cause = CAUSE_NOT_THERE;
	f->confidence = a->confidence;
	f->since_ns = still_since(waits ? waits : a->comm);
	finding_note(f, EVIDENCE_WAITING_S, (m->now_ns - f->since_ns) * 1e-9);
	note_others(f, found, a->comm);
	if (waits) {
		f->comm = waits->hash;
		unread_op_name(f, waits, found);
		unread_comms_note(f, m, found);
		finding_note_text(f, EVIDENCE_SEQ_IS, "the last that peers entered; it may lack earlier ones too");
	}
	call_site_note_others(f, found, m);
	return 0;
}

/* Do all wait for them? That is for the hosts to say that are not here. */
static int unobserved_report(const struct model *m, const struct absent *a, bool all_wait, struct finding_list *found)
{
	struct finding *f = finding_of(a, all_wait ? FINDING_HANG : FINDING_UNOBSERVED, found);

	if (!f)
		return -ENOMEM;
	f->class = all_wait ? HANG_UNKNOWN : HANG_NONE;
	f->cause = CAUSE_NO_HOST_TOLD;
	f->confidence = all_wait ? UNTOLD : 1;
	f->since_ns = all_wait ? still_since(a->comm) : m->now_ns;
	if (all_wait)
		note_others(f, found, a->comm);
	return 0;
}

/* Sure roots stay. Of those that sit like a waiter the one that is gone may be the reason. */
static bool unsure_only(const struct wait_roots *waits)
{
	for (int i = 0; i < waits->n_roots; i++)
		if (waits->roots[i].confidence >= ALL_OTHERS)
			return false;
	return !waits->n_cycles;
}

int absent_report(const struct model *m, struct wait_roots *waits, struct finding_list *found)
{
	const struct comm *c = world_of(m);
	struct absent a;
	bool all_wait;

	if (!c || c->n_seen == c->nranks || !c->members || !c->members->samples.n)
		return 0;
	missing_find(m, c, &a);
	all_wait = unsure_only(waits) && all_still(m) && still_since(c);
	if (!a.n || (!is_merge(m) && (!all_wait || !a.confidence)))
		return 0;
	waits->n_roots = all_wait ? 0 : waits->n_roots;
	return is_merge(m) ? unobserved_report(m, &a, all_wait, found) : gone_report(m, &a, found);
}
