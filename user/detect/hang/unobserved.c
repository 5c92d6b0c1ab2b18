/* SPDX-License-Identifier: Apache-2.0
 *
 * unobserved.c - see unobserved.h.
 *
 * Unread: what such a rank entered is not known; but a rank blocked in the kernel does not go on, and a communicator in
 * which it is the only one not read, and all others do not move, waits for it: had it entered what they did, they would
 * have gone on. Only one such rank: of two nothing shows which belongs where.
 *
 * Absent: on one host a rank without a process may as well be on another host. It is named where its neighbours by
 * local rank are here, or where it alone is missing. In a merge of several hosts' recordings it is unobserved, and so
 * is every rank of a host that has fallen silent.
 */
#include "detect/hang/unobserved.h"

#include <errno.h>
#include <stdlib.h>

#include "detect/hang/classify.h"
#include "detect/hang/pending.h"
#include "detect/hang/report.h"
#include "detect/phrase.h"
#include "detect/rank/call_site.h"
#include "detect/rank/counters.h"
#include "detect/rank/homes.h"

#define CONFIDENCE_UNREAD 0.7 /* what the others do elsewhere is not ruled out */
#define ENCLOSED 0.85         /* ranks before and behind it are here */
#define ALL_OTHERS 0.6        /* all others are here: another host would have one rank alone */
#define UNOBSERVED 0.4
#define PAUSE_NS 30000000000ull
#define BEGIN_NS 10000000000ull /* agents are started one after another */

/* --- a rank whose memory cannot be read --- */

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

	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p)) {
		if (p->dead || p->is_child || p->rank < 0 || p->members || !lock_holder(p))
			continue;
		if (one)
			return NULL;
		one = p;
	}
	return one;
}

/* Since when all members that were read, all but one, have stopped at one number; 0: they have not. */
static uint64_t only_one_unread_since(const struct comm *c)
{
	uint64_t lo, hi, since = 0, one;

	if (!c->by_rank || c->n_seen != c->nranks - 1 || !c->highest_seq[SEQ_COLL] || comm_span(c, SEQ_COLL, &lo, &hi))
		return 0;
	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb)) {
		one = counters_still_ns(mb);
		if (!one)
			return 0;
		since = one > since ? one : since;
	}
	return since;
}

/* The communicator that one rank is missing from and all others do not move in, the one used most; NULL: none. `roots`:
 * not of a job that they explain; NULL: of any. */
static const struct comm *unread_comm(const struct model *m, const struct wait_roots *roots)
{
	const struct comm *best = NULL;

	for (const struct comm *c = m->comms; c; c = c->next)
		if (only_one_unread_since(c) && (!best || c->highest_seq[SEQ_COLL] > best->highest_seq[SEQ_COLL]) &&
		    !(roots && wait_roots_explain(roots, c->members->proc->job)))
			best = c;
	return best;
}

/* Had it entered one, it may wait in the other: what its peers entered last in each, where there are several. */
static void comms_note(struct finding *f, const struct model *m, struct finding_list *found)
{
	char names[256] = "";
	int n = 0;

	for (const struct comm *c = m->comms; c; c = c->next) {
		if (!only_one_unread_since(c))
			continue;
		n++;
		phrase_place(names, sizeof(names), c->hash, c->highest_seq[SEQ_COLL] - 1);
	}
	if (n > 1)
		finding_note_text(f, EVIDENCE_COMM_ONE_OF, finding_list_text(found, names));
}

/* The last operation that all but that rank entered. Counters say how many of each kind there were, not which was the
 * last: the usual one, and that there is a choice. */
static void op_name(struct finding *f, const struct comm *c, struct finding_list *found)
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
	finding_note(f, EVIDENCE_WAITING_S, (m->now_ns - f->since_ns) * 1e-9);
	comm_waiting_note(f, found, c);
	finding_note_text(f, EVIDENCE_OWN_COUNTERS, "not readable: mmap_lock is held");
	finding_note_text(f, EVIDENCE_SEQ_IS, "the last that peers entered; it may lack earlier ones too");
}

int unread_report(const struct model *m, const struct wait_roots *roots, struct finding_list *found)
{
	const struct proc *p = unread_rank(m);
	const struct comm *c = p && !wait_roots_explain(roots, p->job) ? unread_comm(m, roots) : NULL;
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
	f->since_ns = only_one_unread_since(c);
	f->confidence = CONFIDENCE_UNREAD;
	pending_identify(f, p, c, SEQ_COLL, f->seq);
	finding_add_rank(f, proc_rank(p), p->key);
	f->caused_by_key = standing_key(found, p->key, p->key);
	waiting_note(f, m, c, found);
	call_site_note(f, found, p, 0);
	call_site_note_others(f, found, m);
	op_name(f, c, found);
	comms_note(f, m, found);
	return 0;
}

/* --- a rank without a process --- */

struct absent {
	int n, first;            /* all of them */
	bool *is_missing;        /* by rank */
	const struct node *host; /* of the first; NULL: not known */
	bool at_home;            /* each has its place among the ranks of a host that is here */
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
	for (const struct proc *p = m->procs; p; p = proc_next(p))
		if (!p->is_child && p->world_size > size)
			size = p->world_size;
	return best && (size < 0 || best->nranks == size) ? best : NULL;
}

/* Every member that is seen did not move from one sample to the next, and no call of any is seen. */
static bool all_still(const struct model *m)
{
	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p))
		for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
			if (!mb->gone && !proc_unobserved(p) && mb->samples.counted && !counters_still_ns(mb))
				return false;
	return true;
}

static bool is_seen(const struct comm *c, int rank)
{
	return c->by_rank[rank] && !proc_unobserved(c->by_rank[rank]->proc);
}

static int n_seen(const struct model *m, const struct comm *c)
{
	int n = 0;

	for (int r = 0; m->reported && r < c->nranks; r++)
		n += is_seen(c, r);
	return m->reported ? n : c->n_seen;
}

/* With none of them alive the job is over: no rank waits for those that are missing. */
static bool one_lives(const struct comm *c)
{
	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb))
		if (!mb->proc->dead && !proc_unobserved(mb->proc))
			return true;
	return false;
}

/* Of several hosts' recordings. */
static bool is_merge(const struct model *m)
{
	return m->merged;
}

static uint64_t last_still_ns(const struct comm *c)
{
	uint64_t since = 0, one;

	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb)) {
		one = proc_unobserved(mb->proc) ? 0 : counters_still_ns(mb);
		since = one > since ? one : since;
	}
	return since;
}

/* An autopsy, or a merge: asked for because the job hangs. */
static bool is_asked(const struct model *m)
{
	return !m->reported && (model_is_autopsy(m) || is_merge(m));
}

/* The other of two: the one that is here is the first of its host. */
static bool is_elsewhere(const struct comm *c)
{
	const struct proc *one = c->members->proc;

	return c->n_seen == 1 && one->rank > 0 && !one->local_rank;
}

/* A hub knows of all hosts. Elsewhere, of one rank alone the other may be alone on its host, too; and without ranks in
 * environments a communicator of the whole job looks as one that a few processes share with another host's. */
static bool all_others_seen(const struct model *m, const struct absent *a)
{
	const struct comm *c = a->comm;
	const struct proc *one = c->members->proc;

	if (a->n != 1 || c->n_seen != c->nranks - 1 || one->node->partial)
		return false;
	if (m->reported || is_elsewhere(c))
		return m->reported;
	return is_asked(m) || (one->world_size == c->nranks && (c->n_seen > 1 || a->at_home));
}

/* 0 or -ENOMEM; free a->is_missing either way. */
static int missing_find(const struct model *m, const struct comm *c, struct absent *a)
{
	struct home *homes = homes_find(m, c->nranks);
	bool enclosed;

	*a = (struct absent){ .comm = c, .at_home = true, .is_missing = calloc(c->nranks, sizeof(bool)) };
	if (!homes || !a->is_missing) {
		free(homes);
		return -ENOMEM;
	}
	for (int r = 0; r < c->nranks; r++) {
		a->is_missing[r] = !is_seen(c, r) && !homes[r].has_process;
		if (!a->is_missing[r])
			continue;
		a->at_home &= homes[r].host != NULL;
		if (a->n++)
			continue;
		a->first = r;
		a->host = homes[r].host;
	}
	free(homes);
	enclosed = a->at_home && 4 * a->n <= c->nranks; /* more do not die unseen */
	a->confidence = enclosed ? ENCLOSED : all_others_seen(m, a) ? ALL_OTHERS : 0;
	return 0;
}

static struct finding *finding_of(const struct absent *a, enum finding_kind kind, int n_missing,
				  struct finding_list *found)
{
	struct finding *f = finding_list_add(found);

	if (!f)
		return NULL;
	f->kind = kind;
	f->comm = a->comm->hash;
	f->subject = a->n == 1 ? subject_rank(a->first, 0) : subject_ranks(a->comm->hash);
	finding_identify(f, "absent", 0, a->comm->hash);
	for (int r = a->first; r < a->comm->nranks && f->n_ranks < FINDING_RANKS_MAX; r++)
		if (a->is_missing[r])
			finding_add_rank(f, r, 0);
	f->n_ranks_all = a->n; /* a forged communicator lacks millions */
	finding_note(f, EVIDENCE_COMM_SIZE, a->comm->nranks);
	finding_note(f, EVIDENCE_N_MISSING, n_missing);
	return f;
}

static int gone_report(const struct model *m, const struct absent *a, struct finding_list *found)
{
	const struct comm *waits = a->n == 1 ? unread_comm(m, NULL) : NULL;
	struct finding *f = finding_of(a, FINDING_HANG, a->comm->nranks - a->comm->n_seen, found);

	if (!f)
		return -ENOMEM;
	f->class = HANG_PROCESS_DEAD;
	f->cause = CAUSE_NOT_THERE;
	f->confidence = a->confidence;
	if (is_merge(m) && a->host)
		f->node = a->host->number;
	f->since_ns = last_still_ns(waits ? waits : a->comm);
	finding_note(f, EVIDENCE_WAITING_S, (m->now_ns - f->since_ns) * 1e-9);
	comm_waiting_note(f, found, a->comm);
	if (waits) {
		f->comm = waits->hash;
		op_name(f, waits, found);
		comms_note(f, m, found);
		finding_note_text(f, EVIDENCE_SEQ_IS, "the last that peers entered; it may lack earlier ones too");
	}
	call_site_note_others(f, found, m);
	return 0;
}

/* All wait for them? Only the hosts that are not here know. */
static int unobserved_report(const struct model *m, const struct absent *a, bool all_wait, struct finding_list *found)
{
	struct finding *f = finding_of(a, all_wait ? FINDING_HANG : FINDING_UNOBSERVED,
				       a->comm->nranks - n_seen(m, a->comm), found);

	if (!f)
		return -ENOMEM;
	f->class = all_wait ? HANG_UNKNOWN : HANG_NONE;
	f->cause = CAUSE_NO_HOST_TOLD;
	f->confidence = all_wait ? UNOBSERVED : 1;
	f->since_ns = all_wait ? last_still_ns(a->comm) : m->now_ns;
	if (all_wait)
		comm_waiting_note(f, found, a->comm);
	return 0;
}

/* Sure roots stay. Of those that sit like a waiting rank the absent one may be the reason. */
static bool unsure_only(const struct wait_roots *waits)
{
	for (int i = 0; i < waits->n_roots; i++)
		if (waits->roots[i].confidence >= ALL_OTHERS)
			return false;
	return !waits->n_cycles;
}

static bool may_come_yet(const struct model *m, const struct comm *c)
{
	return m->reported && m->now_ns < (c->first_ns > m->start_ns ? c->first_ns : m->start_ns) + BEGIN_NS;
}

/* Where hosts report all the time, all ranks may pause together, or a host's agent is away; not so where a host that
 * reports has no process of a rank that belongs to it. */
static bool is_wait(const struct model *m, const struct comm *c, bool is_gone)
{
	uint64_t since = last_still_ns(c), pause = m->reported && !is_gone ? PAUSE_NS : 0;

	return since && (is_asked(m) || m->now_ns > since + pause + comm_lag_limit_ns(m, c));
}

/* Seen to go on: who is not seen takes part, from elsewhere. A hub knows of all hosts. */
static bool goes_on(const struct model *m, const struct comm *c)
{
	for (const struct member *mb = c->members; mb && !m->reported && !is_asked(m); mb = member_next_in_comm(mb))
		if (mb->samples.moved)
			return true;
	return false;
}

static int missing_report(const struct model *m, const struct absent *a, struct wait_roots *waits,
			  struct finding_list *found)
{
	bool is_gone = a->confidence >= (is_merge(m) ? ENCLOSED : ALL_OTHERS);
	bool all_wait = unsure_only(waits) && all_still(m) && is_wait(m, a->comm, is_gone);

	if (!a->n || (!is_merge(m) && !(all_wait && is_gone && !goes_on(m, a->comm))))
		return 0;
	waits->n_roots = all_wait ? 0 : waits->n_roots;
	waits->missing = a->comm->members->proc->job;
	waits->missing_waited_for = all_wait;
	return all_wait && is_gone ? gone_report(m, a, found) : unobserved_report(m, a, all_wait, found);
}

int absent_report(const struct model *m, struct wait_roots *waits, struct finding_list *found)
{
	const struct comm *c = world_of(m);
	struct absent a;
	int err;

	if (!c || may_come_yet(m, c) || n_seen(m, c) == c->nranks || !c->members || !c->members->samples.n ||
	    !one_lives(c))
		return 0;
	err = missing_find(m, c, &a);
	err = err ? err : missing_report(m, &a, waits, found);
	free(a.is_missing);
	return err;
}
