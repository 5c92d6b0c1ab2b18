/* SPDX-License-Identifier: Apache-2.0
 *
 * comm_init.c - see comm_init.h. Who is missing says rank/init_missing.h.
 *
 * A job starts slowly and unevenly, and a rank may sleep because it waits for one that works: so a sleeper is named
 * only while no rank is at work, and work is reported late, as an observation.
 */
#include "detect/hang/comm_init.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "detect/hang/classify.h"
#include "detect/hang/pending.h"
#include "detect/hang/report.h"
#include "detect/hang/wait_graph.h"
#include "detect/phrase.h"
#include "detect/rank/activity.h"
#include "detect/rank/call_site.h"
#include "detect/rank/seat_activity.h"

#define REPORT_BUSY_NS 30000000000ull /* imports and data sets take that long in healthy jobs */
#define LIST_CAP 256
#define CONFIDENCE_OUTSIDE 0.8

/* --- evidence --- */

static void note_comm_ranks(struct finding *f, struct finding_list *found, const struct comm_init *b)
{
	char text[LIST_CAP] = "";

	for (int r = 0; r < b->nranks && r < 4096; r++) {
		const struct comm_init_member *bm = b->members;

		while (bm && bm->rank != r)
			bm = bm->next;
		if (!bm)
			phrase_list(text, sizeof(text), r);
	}
	finding_note_text(f, b->parent ? EVIDENCE_MISSING_PARENT_RANKS : EVIDENCE_MISSING_COMM_RANKS,
			  finding_list_text(found, text));
}

static void note_init(struct finding *f, struct finding_list *found, const struct model *m, const struct comm_init *b)
{
	struct pending pend = { .init = b };
	char text[LIST_CAP];

	pending_waiting_text(&pend, text, sizeof(text));
	finding_note_text(f, EVIDENCE_CREATION, comm_init_kind_name(b->kind));
	finding_note(f, EVIDENCE_COMM_SIZE, b->nranks);
	finding_note(f, EVIDENCE_N_CALLED, b->n_called);
	finding_note(f, EVIDENCE_WAITING_S, (m->now_ns - comm_init_since_ns(b)) * 1e-9);
	finding_note_text(f, EVIDENCE_WAITING_RANKS, finding_list_text(found, text));
	note_comm_ranks(f, found, b);
}

static void note_missing(struct finding *f, const struct rank_activity *a, const struct proc *p)
{
	if (p->dead) {
		finding_note(f, EVIDENCE_EXIT_CODE, p->exit_code);
		finding_note(f, EVIDENCE_EXIT_SIGNAL, p->exit_signal);
		return;
	}
	if (a->task) {
		finding_note_text(f, EVIDENCE_STATE, task_state_name(a->task->state));
		finding_note_text(f, EVIDENCE_THREAD, a->task->name);
		finding_note(f, EVIDENCE_TID, a->task->tid);
		finding_note_text(f, EVIDENCE_KERNEL_STACK, a->task->blocked ? a->task->kernel_stack : "");
	}
	if (a->cpu_share >= 0)
		finding_note(f, EVIDENCE_CPU_SHARE, a->cpu_share);
}

/* --- findings --- */

static bool is_inside(const struct model *m, const struct proc *p)
{
	for (const struct comm_init *b = m->comm_inits; b; b = b->next)
		for (const struct comm_init_member *bm = b->members; bm; bm = bm->next)
			if (bm->proc == p && comm_init_waits(bm))
				return true;
	return false;
}

static bool at_work(enum activity what)
{
	return what != ACTIVITY_ASLEEP && what != ACTIVITY_DEAD && what != ACTIVITY_STOPPED && what != ACTIVITY_BLOCKED;
}

static bool seat_works(const struct model *m, const struct member *seat, uint64_t since_ns)
{
	struct rank_node r = { seat->proc, seat_own_tid(seat) };

	return r.tid && !rank_node_waits(&r) && !comm_init_thread_waits(m, r.proc, r.tid) &&
	       at_work(seats_activity(m, r.proc, r.tid, false, since_ns).what);
}

static bool any_seat_works(const struct model *m, const struct proc *p, uint64_t since_ns)
{
	struct seats s;

	seats_of(p, &s);
	for (int i = 0; i < s.n; i++)
		if (seat_works(m, s.all[i], since_ns))
			return true;
	return false;
}

/* Some rank of the creation's job that waits for nothing known works, or may do so. */
static bool anyone_works(const struct model *m, const struct comm_init *b, uint64_t since_ns)
{
	for (const struct proc *p = m->procs; p; p = proc_next(p)) {
		if (p->dead || p->is_child || p->job != b->members->proc->job)
			continue;
		if (p->shared && any_seat_works(m, p, since_ns))
			return true;
		if (!p->shared && p->rank >= 0 && !proc_waits(p) && !is_inside(m, p) &&
		    at_work(rank_activity(m, p, since_ns).what))
			return true;
	}
	return false;
}

static struct finding *finding_of(struct finding_list *found, uint64_t key)
{
	for (size_t i = 0; i < found->n; i++)
		if (found->items[i].key == key)
			return &found->items[i];
	return NULL;
}

static struct subject init_subject(const struct comm_init *b)
{
	return subject_comm(b->id_hash, b->parent ? b->parent->hash : 0);
}

static uint64_t init_finding_key(enum finding_kind kind, const struct comm_init *b)
{
	struct subject s = init_subject(b);

	return finding_key(kind, &s, "init", b->kind, b->nth);
}

static struct finding *init_finding(const struct model *m, const struct comm_init *b, enum finding_kind kind,
				    struct finding_list *found)
{
	struct finding *f = finding_list_add(found);

	if (!f)
		return NULL;
	f->kind = kind;
	f->class = HANG_INIT;
	f->subject = init_subject(b);
	f->key = init_finding_key(kind, b);
	f->comm = b->id_hash; /* of a Split: not known before it is made */
	f->since_ns = comm_init_since_ns(b);
	f->confidence = m->last_loss_ns && m->last_loss_ns + 10000000000ull > f->since_ns ? 0.4 : 0.95;
	note_init(f, found, m, b);
	return f;
}

static enum finding_cause cause_of(const struct proc *p, enum activity what)
{
	switch (what) {
	case ACTIVITY_DEAD: return CAUSE_DEAD;
	case ACTIVITY_STOPPED: return proc_stop_cause(p);
	case ACTIVITY_BLOCKED: return CAUSE_D_STATE;
	case ACTIVITY_ASLEEP: return CAUSE_ASLEEP;
	default: return CAUSE_BUSY;
	}
}

/* Of ranks that share a process: how the first of them is known. */
static void rank_note(struct finding *f, struct finding_list *found, const struct rank_ref *r)
{
	struct seats one = { .all = { r->seat }, .n = 1 };

	if (!r->seat)
		finding_add_rank(f, proc_rank(r->proc), r->proc->key);
	else if (f->n_ranks)
		finding_add_rank(f, member_rank(r->seat), r->proc->key);
	else
		seats_note(f, found, &one, r->seat->comm);
}

static int report_rank(const struct model *m, const struct rank_ref *r, const struct pending *pend,
		       const struct rank_activity *a, enum finding_kind kind, struct finding_list *found)
{
	const struct proc *p = r->proc;
	struct finding *f = finding_of(found, init_finding_key(kind, pend->init));

	if (!f) {
		f = init_finding(m, pend->init, kind, found);
		if (!f)
			return -ENOMEM;
		f->cause = cause_of(p, a->what);
		note_missing(f, a, p);
	}
	if (kind == FINDING_HANG && !f->caused_by_key)
		f->caused_by_key = standing_key(found, a->what == ACTIVITY_BLOCKED ? a->task->proc->key : 0, p->key);
	rank_note(f, found, r);
	return 0;
}

static struct rank_activity ref_activity(const struct model *m, const struct rank_ref *r, uint64_t since_ns)
{
	return r->seat ? seats_activity(m, r->proc, rank_ref_tid(r), false, since_ns)
		       : rank_activity(m, r->proc, since_ns);
}

int comm_init_report_rank(const struct model *m, const struct rank_ref *r, const struct pending *pend,
			  uint64_t busy_limit_ns, struct finding_list *found)
{
	struct rank_activity a = ref_activity(m, r, pend->since_ns);
	uint64_t waited = m->now_ns - pend->since_ns;

	if (waited <= pend->limit_ns)
		return 0;
	if (a.what == ACTIVITY_ASLEEP && anyone_works(m, pend->init, pend->since_ns))
		a.what = ACTIVITY_BUSY;
	if (!at_work(a.what) || waited > busy_limit_ns)
		return report_rank(m, r, pend, &a, FINDING_HANG, found);
	return waited > REPORT_BUSY_NS ? report_rank(m, r, pend, &a, FINDING_OBSERVATION, found) : 0;
}

bool comm_init_thread_waits(const struct model *m, const struct proc *p, uint32_t tid)
{
	for (const struct comm_init *b = m->comm_inits; b; b = b->next)
		for (const struct comm_init_member *bm = b->members; bm && comm_init_incomplete(b); bm = bm->next)
			if (bm->proc == p && bm->tid == tid && comm_init_waits(bm))
				return true;
	return false;
}

static bool ref_waits(const struct model *m, const struct rank_ref *r)
{
	struct rank_node node = { r->proc, rank_ref_tid(r) };

	if (!r->seat)
		return proc_waits(r->proc) || is_inside(m, r->proc);
	return node.tid && (rank_node_waits(&node) || comm_init_thread_waits(m, r->proc, node.tid));
}

int comm_init_report_seats(const struct model *m, const struct suspects *all, struct finding_list *found)
{
	struct rank_ref missing[INIT_MISSING_MAX];
	int err = 0;

	for (const struct comm_init *b = m->comm_inits; b && !err; b = b->next) {
		int n = comm_init_missing(m, b, missing, NULL);
		struct pending pend = { .init = b, .since_ns = comm_init_since_ns(b) };

		for (int i = 0; i < n && !err; i++) {
			pend.limit_ns = comm_init_limit_ns(m, missing[i].proc);
			if (missing[i].seat && !ref_waits(m, &missing[i]))
				err = comm_init_report_rank(m, &missing[i], &pend,
							    suspects_busy_limit_ns(all, m, missing[i].proc->job),
							    found);
		}
	}
	return err;
}

/* Some ranks of its job have no process here. */
static bool job_goes_on_elsewhere(const struct model *m, const struct comm_init *b)
{
	const struct proc *one = b->members->proc;
	int n = 0;

	for (const struct proc *p = m->procs; p && !one->shared; p = proc_next(p))
		n += !p->dead && !p->is_child && p->rank >= 0 && p->job == one->job && p->world_size == one->world_size;
	return n < one->world_size && !one->shared;
}

/* Of ranks that may be missing those that wait for others do not come: one elsewhere is missing, if any is. */
static bool missing_here(const struct model *m, const struct comm_init *b, const struct rank_ref *list, int n)
{
	int n_waiting = 0;

	for (int i = 0; i < n; i++)
		n_waiting += ref_waits(m, &list[i]);
	return n > n_waiting || (n && !job_goes_on_elsewhere(m, b));
}

/* The id went to a part of the job, or ranks of other nodes are missing: what is known is reported, no rank is named.
 */
static int report_unnamed(const struct model *m, const struct suspects *all, struct finding_list *found)
{
	struct rank_ref rest[INIT_MISSING_MAX];
	struct finding *f;
	char text[LIST_CAP];
	bool exact = false, hang;
	int n;

	for (const struct comm_init *b = m->comm_inits; b; b = b->next) {
		uint64_t since = comm_init_since_ns(b);

		n = since == UINT64_MAX ? 0 : comm_init_missing(m, b, rest, &exact);
		n = exact || missing_here(m, b, rest, n) ? n : 0;
		if (since == UINT64_MAX || !comm_init_incomplete(b) || (exact && n) ||
		    m->now_ns < since + comm_init_limit_ns(m, b->members->proc))
			continue;
		hang = n > 0 && (m->now_ns > since + suspects_busy_limit_ns(all, m, b->members->proc->job) ||
				 !anyone_works(m, b, since));
		if (!hang && m->now_ns < since + REPORT_BUSY_NS)
			continue;
		f = init_finding(m, b, hang ? FINDING_HANG : FINDING_OBSERVATION, found);
		if (!f)
			return -ENOMEM;
		f->cause = n ? CAUSE_NOT_KNOWN : CAUSE_NOT_SEEN;
		f->confidence *= 0.6;
		text[0] = 0;
		for (int i = 0; i < n; i++)
			phrase_list(text, sizeof(text),
				    rest[i].seat ? member_rank(rest[i].seat) : proc_rank(rest[i].proc));
		finding_note_text(f, EVIDENCE_RANKS_OUTSIDE, finding_list_text(found, text));
	}
	return 0;
}

/* --- inits known from memory alone ---
 *
 * NCCL allocates a communicator, with its rank and size, before it waits for the others: those that wait show one whose
 * state is "in progress". Who is missing is known where the communicator is the job's size: its ranks are then the
 * job's, if all of their memory was scanned (an autopsy does). A rank at work may be starting still: an observation. */

/* Since when all members that are here are in the init; 0: they are not, or that was seen once. */
static uint64_t outside_since(const struct comm *c)
{
	uint64_t since = 0;

	if (!c->by_rank || c->n_seen == c->nranks || c->highest_seq[SEQ_COLL])
		return 0;
	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb)) {
		const struct samples *s = &mb->samples;

		if (mb->gone || mb->last_call_ns || !s->init_state || s->seen_ns <= s->since_ns)
			return 0;
		since = !since || s->since_ns < since ? s->since_ns : since;
	}
	return since;
}

static bool is_missing(const struct comm *c, const struct proc *p)
{
	return !p->dead && !p->is_child && p->comms_scanned && p->rank >= 0 && p->rank < c->nranks &&
	       p->world_size == c->nranks && !c->by_rank[p->rank];
}

static void outside_note(struct finding *f, const struct model *m, const struct comm *c, const struct rank_activity *a,
			 struct finding_list *found)
{
	finding_note(f, EVIDENCE_WAITING_S, (m->now_ns - f->since_ns) * 1e-9);
	comm_waiting_note(f, found, c);
	finding_note(f, EVIDENCE_COMM_SIZE, c->nranks);
	if (!a->task)
		return;
	finding_note_text(f, EVIDENCE_STATE, task_state_name(a->task->state));
	finding_note_text(f, EVIDENCE_THREAD, a->task->name);
	finding_note_text(f, EVIDENCE_SYSCALL, a->task->syscall);
	finding_note_text(f, EVIDENCE_WCHAN, a->task->wchan);
}

static int outside_report_rank(const struct model *m, const struct comm *c, const struct proc *p, uint64_t since,
			       struct finding_list *found)
{
	struct rank_activity a = rank_activity(m, p, since);
	const struct finding *blocked =
		a.what == ACTIVITY_BLOCKED ? finding_list_of(found, FINDING_D_STATE, a.task->proc->key) : NULL;
	bool still = a.what == ACTIVITY_STOPPED || a.what == ACTIVITY_BLOCKED || a.what == ACTIVITY_ASLEEP;
	struct finding *f;

	if (!still && a.what != ACTIVITY_BUSY)
		return 0;
	f = finding_list_add(found);
	if (!f)
		return -ENOMEM;
	f->kind = still ? FINDING_HANG : FINDING_OBSERVATION;
	f->class = HANG_INIT;
	f->cause = cause_of(p, a.what);
	f->comm = c->hash;
	f->since_ns = since;
	f->confidence = CONFIDENCE_OUTSIDE;
	f->subject = subject_rank(p->rank, p->key);
	finding_identify(f, "init_outside", 0, c->hash);
	f->caused_by_key = blocked ? blocked->key : 0;
	finding_add_rank(f, p->rank, p->key);
	outside_note(f, m, c, &a, found);
	call_site_note(f, found, p, 0);
	call_site_note_others(f, found, m);
	return 0;
}

static int report_outside(const struct model *m, struct finding_list *found)
{
	int err = 0;

	for (const struct comm *c = m->comms; c && !err; c = c->next) {
		uint64_t since = outside_since(c);

		for (const struct proc *p = since ? m->procs : NULL; p && !err; p = proc_next(p))
			if (is_missing(c, p))
				err = outside_report_rank(m, c, p, since, found);
	}
	return err;
}

int comm_init_report_rest(const struct model *m, const struct suspects *all, struct finding_list *found)
{
	int err = report_unnamed(m, all, found);

	return err ? err : report_outside(m, found);
}
