/* SPDX-License-Identifier: Apache-2.0
 *
 * comm_init_outside.c - see comm_init_outside.h. NCCL allocates a communicator, with its rank and size, before it waits
 * for the others: those that wait show one whose state is "in progress". Who is missing is known where the communicator
 * is the job's size: its ranks are then the job's, if all of their memory was looked through (an autopsy does). A rank
 * at work may be starting still: that is told as an observation.
 */
#include "detect/hang/comm_init_outside.h"

#include <errno.h>

#include "detect/rank/activity.h"
#include "detect/rank/call_site.h"
#include "detect/phrase.h"

#define CONFIDENCE 0.8

/* Since when all of it that is here is in creation; 0: it is not, or that was seen once. */
static uint64_t creation_since(const struct comm *c)
{
	uint64_t since = 0;

	if (!c->by_rank || c->n_seen == c->nranks || c->highest_seq[SEQ_COLL])
		return 0;
	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm) {
		const struct samples *s = &mb->samples;

		if (mb->gone || mb->last_call_ns || !s->init_state || s->seen_ns <= s->since_ns)
			return 0;
		since = !since || s->since_ns < since ? s->since_ns : since;
	}
	return since;
}

static bool is_missing(const struct comm *c, const struct proc *p)
{
	return !p->dead && !p->is_child && p->comms_scanned && p->rank >= 0 && p->world_size == c->nranks &&
	       !c->by_rank[p->rank];
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
	finding_note(f, EVIDENCE_COMM_SIZE, c->nranks);
}

static void activity_note(struct finding *f, const struct rank_activity *a)
{
	if (!a->task)
		return;
	finding_note_text(f, EVIDENCE_STATE, task_state_name(a->task->state));
	finding_note_text(f, EVIDENCE_THREAD, a->task->name);
	finding_note_text(f, EVIDENCE_SYSCALL, a->task->syscall);
	finding_note_text(f, EVIDENCE_WCHAN, a->task->wchan);
}

static enum finding_cause cause_of(enum activity what)
{
	switch (what) {
	case ACTIVITY_STOPPED: return CAUSE_STOPPED;
	case ACTIVITY_BLOCKED: return CAUSE_D_STATE;
	case ACTIVITY_ASLEEP: return CAUSE_ASLEEP;
	default: return CAUSE_BUSY;
	}
}

static int missing_report(const struct model *m, const struct comm *c, const struct proc *p, uint64_t since,
			  struct finding_list *found)
{
	struct rank_activity a = rank_activity(m, p, since);
	const struct finding *blocked =
		a.what == ACTIVITY_BLOCKED ? finding_list_of(found, FINDING_D_STATE, a.task->proc->key) : NULL;
	bool stuck = a.what == ACTIVITY_STOPPED || a.what == ACTIVITY_BLOCKED || a.what == ACTIVITY_ASLEEP;
	struct finding *f;

	if (!stuck && a.what != ACTIVITY_BUSY)
		return 0;
	f = finding_list_add(found);
	if (!f)
		return -ENOMEM;
	f->kind = stuck ? FINDING_HANG : FINDING_OBSERVATION;
	f->class = HANG_INIT;
	f->cause = cause_of(a.what);
	f->comm = c->hash;
	f->since_ns = since;
	f->confidence = CONFIDENCE;
	f->key = finding_key(f->kind, c->hash ^ proc_mix(p), 0, 2000);
	f->caused_by_key = blocked ? blocked->key : 0;
	finding_add_rank(f, p->rank, p->key);
	waiting_note(f, m, c, found);
	activity_note(f, &a);
	call_site_note(f, found, p);
	call_site_note_others(f, found, m);
	return 0;
}

int comm_init_report_outside(const struct model *m, struct finding_list *found)
{
	int err = 0;

	for (const struct comm *c = m->comms; c && !err; c = c->next) {
		uint64_t since = creation_since(c);

		for (const struct proc *p = since ? m->procs : NULL; p && !err; p = p->next)
			if (is_missing(c, p))
				err = missing_report(m, c, p, since, found);
	}
	return err;
}
