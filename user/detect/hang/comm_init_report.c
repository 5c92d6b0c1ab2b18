/* SPDX-License-Identifier: Apache-2.0
 *
 * comm_init_report.c - communicators whose creation waits for ranks that do not come. A job starts slowly and unevenly,
 * and a rank may sleep because it waits for one that works: so a sleeper is named only while nobody is at work, and
 * work is told late, as an observation.
 */
#include <errno.h>

#include "detect/rank/activity.h"
#include "detect/hang/comm_init.h"
#include "detect/phrase.h"

#define REPORT_BUSY_NS 30000000000ull /* imports and data sets take that long in jobs that are well */
#define LIST_CAP 256

static bool is_inside(const struct model *m, const struct proc *p)
{
	for (const struct birth *b = m->births; b; b = b->next)
		for (const struct birth_member *bm = b->members; bm; bm = bm->next)
			if (bm->proc == p && comm_init_waits(bm))
				return true;
	return false;
}

static bool at_work(enum activity what)
{
	return what != ACTIVITY_ASLEEP && what != ACTIVITY_DEAD && what != ACTIVITY_STOPPED && what != ACTIVITY_BLOCKED;
}

/* Some rank of the job that waits for nothing we know of works, or may do so. */
static bool anyone_works(const struct model *m, uint64_t since_ns)
{
	for (const struct proc *p = m->procs; p; p = p->next)
		if (!p->dead && !p->is_child && p->rank >= 0 && !proc_waits(p) && !is_inside(m, p) &&
		    at_work(rank_activity(m, p, since_ns).what))
			return true;
	return false;
}

/* --- text --- */

static void note_comm_ranks(struct finding *f, struct finding_list *found, const struct birth *b)
{
	char text[LIST_CAP] = "";

	for (int r = 0; r < b->nranks && r < 4096; r++) {
		const struct birth_member *bm = b->members;

		while (bm && bm->rank != r)
			bm = bm->next;
		if (!bm)
			phrase_list(text, sizeof(text), r);
	}
	finding_note_text(f, b->parent ? EVIDENCE_MISSING_PARENT_RANKS : EVIDENCE_MISSING_COMM_RANKS,
			  finding_list_text(found, text));
}

static void note_init(struct finding *f, struct finding_list *found, const struct model *m, const struct birth *b)
{
	struct pending l = { .birth = b };
	char text[LIST_CAP];

	pending_waiting_text(&l, text, sizeof(text));
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

static struct finding *finding_of(struct finding_list *found, uint64_t key)
{
	for (size_t i = 0; i < found->n; i++)
		if (found->items[i].key == key)
			return &found->items[i];
	return NULL;
}

static struct finding *init_finding(const struct model *m, const struct birth *b, enum finding_kind kind,
				    struct finding_list *found)
{
	struct finding *f = finding_list_add(found);

	if (!f)
		return NULL;
	f->kind = kind;
	f->class = HANG_INIT;
	f->key = finding_key(kind, comm_init_key(b), 0, 2000);
	f->comm = b->id_hash; /* of a Split: not known before it is made */
	f->since_ns = comm_init_since_ns(b);
	f->confidence = m->last_loss_ns && m->last_loss_ns + 10000000000ull > f->since_ns ? 0.4 : 0.95;
	note_init(f, found, m, b);
	return f;
}

static enum finding_cause cause_of(enum activity what)
{
	switch (what) {
	case ACTIVITY_DEAD: return CAUSE_DEAD;
	case ACTIVITY_STOPPED: return CAUSE_STOPPED;
	case ACTIVITY_BLOCKED: return CAUSE_D_STATE;
	case ACTIVITY_ASLEEP: return CAUSE_ASLEEP;
	default: return CAUSE_BUSY;
	}
}

static int name(const struct model *m, const struct proc *p, const struct pending *l, const struct rank_activity *a,
		enum finding_kind kind, struct finding_list *found)
{
	struct finding *f = finding_of(found, finding_key(kind, l->seq, 0, 2000));
	const struct finding *cause = a->what == ACTIVITY_BLOCKED
					      ? finding_list_of(found, FINDING_D_STATE, a->task->proc->key)
				      : a->what == ACTIVITY_STOPPED ? finding_list_of(found, FINDING_STOPPED, p->key)
								    : NULL;

	if (!f) {
		f = init_finding(m, l->birth, kind, found);
		if (!f)
			return -ENOMEM;
		f->cause = cause_of(a->what);
		note_missing(f, a, p);
	}
	if (cause && kind == FINDING_HANG)
		f->caused_by_key = cause->key;
	finding_add_rank(f, proc_rank(p), p->key);
	return 0;
}

int comm_init_report_rank(const struct model *m, const struct proc *p, const struct pending *l, uint64_t busy_limit_ns,
			  struct finding_list *found)
{
	struct rank_activity a = rank_activity(m, p, l->since_ns);
	uint64_t waited = m->now_ns - l->since_ns;

	if (waited <= l->limit_ns)
		return 0;
	if (a.what == ACTIVITY_ASLEEP && anyone_works(m, l->since_ns))
		a.what = ACTIVITY_BUSY;
	if (!at_work(a.what) || waited > busy_limit_ns)
		return name(m, p, l, &a, FINDING_HANG, found);
	return waited > REPORT_BUSY_NS ? name(m, p, l, &a, FINDING_OBSERVATION, found) : 0;
}

/* The id went to a part of the job, or ranks of other nodes are missing: what is known is told, nobody is named. */
int comm_init_report_unnamed(const struct model *m, uint64_t busy_limit_ns, struct finding_list *found)
{
	const struct proc *rest[INIT_MISSING_MAX];
	struct finding *f;
	char text[LIST_CAP];
	bool exact, hang;
	int n;

	for (const struct birth *b = m->births; b; b = b->next) {
		uint64_t since = comm_init_since_ns(b);

		n = since == UINT64_MAX ? 0 : comm_init_missing(m, b, rest, &exact);
		if (since == UINT64_MAX || !comm_init_incomplete(b) || (exact && n) ||
		    m->now_ns < since + comm_init_limit_ns(m, b->members->proc))
			continue;
		hang = n > 0 && (m->now_ns > since + busy_limit_ns || !anyone_works(m, since));
		if (!hang && m->now_ns < since + REPORT_BUSY_NS)
			continue;
		f = init_finding(m, b, hang ? FINDING_HANG : FINDING_OBSERVATION, found);
		if (!f)
			return -ENOMEM;
		f->cause = n ? CAUSE_NOT_KNOWN : CAUSE_NOT_SEEN;
		f->confidence *= 0.6;
		text[0] = 0;
		for (int i = 0; i < n; i++)
			phrase_list(text, sizeof(text), proc_rank(rest[i]));
		finding_note_text(f, EVIDENCE_RANKS_OUTSIDE, finding_list_text(found, text));
	}
	return 0;
}
