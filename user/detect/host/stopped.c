/* SPDX-License-Identifier: Apache-2.0
 *
 * stopped.c - a rank stopped by a signal or a debugger, while no rank is known to wait for it. As soon as a peer does,
 * whether the rank lacks an operation or its proxy stopped in the middle of a transfer, it is the hang detector's,
 * which runs before: what its hang says is not said again. A finding that is open already stays, and is then the hang's
 * cause. So there is always one root. What all had entered and no proxy carries is the GPUs' alone: a stopped host
 * delays no rank before the next operation.
 */
#include <errno.h>
#include <stdlib.h>

#include "detect/rank/activity.h"
#include "detect/rank/call_site.h"
#include "detect/detect.h"
#include "detect/hang/pending.h"
#include "detect/rank/seats.h"

#define SETTLED_NS 100000000ull /* for all threads to stop */
#define GRACE_NS 3000000000ull  /* time for a peer to come and wait; and to give up, or to be seen to go on */
#define SEEN_NS 2000000000ull   /* of that it was seen stopped: what a late report says may be over */

struct stop { /* of one process, since it was stopped */
	uint64_t proc, since_ns;
	uint64_t seen_ns; /* the newest scan that saw it so */
	uint64_t key;
	uint64_t hang_ns; /* the last tick at which a hang named it; 0 never */
	bool open, is_now;
};

struct stopped {
	struct stop *all;
	size_t n, cap;
};

/* All threads are stopped, or the process is frozen: the main one; NULL: not so. A call made since then is newer than
 * the scan that says so. */
static const struct task *stopped_main(const struct proc *p)
{
	const struct task *main_task = NULL;
	bool others_run = false;

	for (const struct task *t = p->tasks; t; t = t->next) {
		others_run |= t->state != TASK_STOPPED && t->seen_ns;
		if (t->tid == p->tgid && t->state == TASK_STOPPED)
			main_task = t;
	}
	if (others_run && !(main_task && main_task->frozen))
		return NULL;
	return main_task && main_task->since_ns && p->last_call_ns <= main_task->since_ns + SETTLED_NS ? main_task
												       : NULL;
}

/* A begin before the newest scan that saw it stopped is another reading of the same one: clocks of hosts are known
 * better with time, and readings of two sources differ. */
static bool is_same_stop(const struct stop *o, const struct proc *p, uint64_t since)
{
	return o->proc == p->key && (since == o->since_ns || since <= o->seen_ns);
}

/* NULL: no memory. */
static struct stop *stop_get(struct stopped *s, const struct proc *p, uint64_t since)
{
	const struct subject subject = subject_process(proc_rank(p), p->key);
	size_t cap = s->cap ? 2 * s->cap : 8;
	struct stop *grown;

	for (size_t i = 0; i < s->n; i++)
		if (is_same_stop(&s->all[i], p, since))
			return &s->all[i];
	if (s->n == s->cap) {
		grown = realloc(s->all, cap * sizeof(*grown));
		if (!grown)
			return NULL;
		s->all = grown;
		s->cap = cap;
	}
	s->all[s->n] = (struct stop){ .proc = p->key,
				      .since_ns = since,
				      .key = finding_key(FINDING_STOPPED, &subject, "stopped", 0, since) };
	return &s->all[s->n++];
}

static bool has_member(const struct proc *p, uint64_t comm)
{
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
		if (!mb->gone && mb->comm->hash == comm)
			return true;
	return false;
}

static bool names(const struct finding *f, const struct proc *p)
{
	for (int i = 0; i < f->n_ranks; i++)
		if (finding_proc(f, i) == p->key)
			return true;
	return false;
}

/* Does a hang of this tick name the process? Of those that do, and of those that name no rank where it is a member,
 * `cause` is the cause; 0: nothing is. */
static bool hangs_explain(struct finding_list *found, const struct proc *p, uint64_t cause)
{
	bool named = false;

	for (size_t i = 0; i < found->n; i++) {
		struct finding *f = &found->items[i];
		bool is_named = f->kind == FINDING_HANG && names(f, p);

		named |= is_named;
		if (cause && !f->caused_by_key && f->kind == FINDING_HANG && f->class != HANG_DEADLOCK &&
		    (is_named || (!f->n_ranks && has_member(p, f->comm))))
			f->caused_by_key = cause;
	}
	return named;
}

static int report(const struct model *m, const struct proc *p, const struct stop *o, struct finding_list *found)
{
	struct finding *f = finding_list_add(found);

	if (!f)
		return -ENOMEM;
	f->kind = FINDING_STOPPED;
	f->subject = subject_process(proc_rank(p), p->key);
	f->key = o->key;
	f->cause = proc_stop_cause(p);
	f->since_ns = o->since_ns;
	f->confidence = 0.99;
	proc_ranks_note(f, found, p, 0);
	finding_note(f, EVIDENCE_STOPPED_S, (m->now_ns - o->since_ns) * 1e-9);
	call_site_note(f, found, p, 0);
	return 0;
}

/* While no rank waits for it: not before a peer had time to come, nor right after a hang that named it. */
static bool is_due(const struct stop *o, const struct model *m, const struct proc *p)
{
	struct pending pending;
	uint64_t from = o->hang_ns > o->since_ns ? o->hang_ns : o->since_ns;

	return m->now_ns >= from + GRACE_NS && o->seen_ns >= from + SEEN_NS && !rank_pending(m, p, &pending);
}

static int proc_tick(struct stopped *s, const struct model *m, const struct proc *p, const struct task *main_task,
		     struct finding_list *found)
{
	struct stop *o = stop_get(s, p, main_task->since_ns);

	if (!o)
		return -ENOMEM;
	o->is_now = true;
	o->seen_ns = main_task->seen_ns;
	if (hangs_explain(found, p, o->open ? o->key : 0))
		o->hang_ns = m->now_ns;
	if (!o->open && !is_due(o, m, p))
		return 0;
	o->open = true;
	return report(m, p, o, found);
}

static void over_forget(struct stopped *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++) {
		if (s->all[i].is_now)
			s->all[n++] = s->all[i];
	}
	s->n = n;
	for (size_t i = 0; i < n; i++)
		s->all[i].is_now = false;
}

static bool may_be_reported(const struct proc *p)
{
	return !p->dead && !p->is_child && !proc_unobserved(p) && (proc_rank(p) >= 0 || p->shared);
}

static int stopped_tick(void *state, const struct model *m, struct finding_list *found)
{
	int err = 0;

	for (const struct proc *p = m->procs; p != m->past && !err; p = proc_next(p)) {
		const struct task *main_task = may_be_reported(p) ? stopped_main(p) : NULL;

		if (main_task)
			err = proc_tick(state, m, p, main_task, found);
	}
	over_forget(state);
	return err;
}

static void stopped_release(void *state)
{
	free(((struct stopped *)state)->all);
}

const struct detector detector_stopped = {
	.name = "stopped",
	.help = "a rank stopped by a signal or a debugger",
	.state_bytes = sizeof(struct stopped),
	.release = stopped_release,
	.tick = stopped_tick,
};
