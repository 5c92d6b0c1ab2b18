/* SPDX-License-Identifier: Apache-2.0
 *
 * reap.c - what the model forgets. A communicator whose members are all gone or dead is kept for a minute, for findings
 * and their evidence, then freed; a dead process once it belongs to none any more (as long as one of its communicators
 * has a member alive, that one may be waiting for it) and leads no living child. Where one process or all have many,
 * what is over goes at once. Operations are handed out before their
 * member goes.
 */
#include <stdlib.h>

#include "model/state.h"

#define SWEEP_EVERY_NS 1000000000ull
#define KEEP_NS 60000000000ull
#define DEAD_RANKS_MAX 256  /* ranks' own processes, longer than KEEP_NS: who they were is reported at the end */
#define DEAD_MAX 2048       /* of all kinds, however young; as many may die until they are counted */
#define IDLE_COMMS_MAX 1024 /* communicators without a living member, however young */

static bool comm_idle(const struct comm *c)
{
	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb))
		if ((!mb->gone && !mb->proc->dead) || mb->n_pending)
			return false;
	return true;
}

static void member_unlink(struct model *m, struct member *mb)
{
	struct proc_own *p = proc_own(mb->proc);
	struct member **link = &p->p.members;

	while (*link != mb)
		link = &(*link)->next_in_proc;
	*link = mb->next_in_proc;
	member_unhash(p, (struct member_own *)mb);
	p->p.n_members--;
	p->p.node->n_members--;
	m->n_members--;
	comm_leave(m, mb); /* the last one takes the communicator with it */
	member_free((struct member_own *)mb);
}

/* First its operations, which are handed out and still name their member; the members at the next sweep. */
static void comm_reap(struct model *m, struct comm *c)
{
	struct member *mb, *next;
	size_t n_ops = 0;

	for (mb = c->members; mb; mb = member_next_in_comm(mb)) {
		n_ops += mb->n_ops;
		while (mb->ops)
			op_drop(m, mb->ops);
	}
	for (mb = n_ops ? NULL : c->members; mb; mb = next) {
		next = mb->next_in_comm;
		member_unlink(m, mb);
	}
}

/* A process that makes one after the other may have so many that are over that it gets no more. */
static bool comm_crowds(const struct comm *c)
{
	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb))
		if (mb->proc->n_members > MODEL_MEMBERS_MAX / 2)
			return true;
	return false;
}

static void comms_sweep(struct model *m)
{
	struct comm *c, *next;
	size_t n_idle = 0;

	for (c = m->comms; c; c = c->next)
		n_idle += comm_idle(c);
	for (c = m->comms; c; c = next) {
		struct comm_own *o = comm_own(c);

		next = c->next;
		if (!comm_idle(c)) {
			o->idle_ns = 0;
			continue;
		}
		if (!o->idle_ns)
			o->idle_ns = m->now_ns;
		if (m->now_ns > o->idle_ns + KEEP_NS || n_idle > IDLE_COMMS_MAX || comm_crowds(c)) {
			n_idle--;
			comm_reap(m, c);
		}
	}
}

static bool is_rank(const struct proc *p)
{
	return p->rank >= 0 && !p->is_child;
}

struct census {
	size_t dead, dead_ranks;
};

static struct census census_of(const struct model *m)
{
	struct census n = { 0 };

	for (const struct proc *p = m->procs; p; p = proc_next(p)) {
		n.dead += p->dead;
		n.dead_ranks += p->dead && is_rank(p);
	}
	return n;
}

static void leaders_keep(struct model *m)
{
	for (struct proc *p = m->procs; p; p = proc_next(p))
		proc_own(p)->needed = false;
	for (struct proc *p = m->procs; p; p = proc_next(p))
		if (!p->dead && p->leader)
			proc_own(p->leader)->needed = true;
}

/* Through both parts of the list, each of which is in order of appearance: together in that order, oldest first. */
struct walk {
	struct proc *p, *past;
	const struct proc *end; /* of the first part */
};

static struct walk walk_begin(const struct model *m)
{
	return (struct walk){ m->procs, m->past, m->past };
}

static struct proc *walk_next(struct walk *w)
{
	bool has = w->p != w->end;
	struct proc **at = has && (!w->past || proc_own(w->p)->nth < proc_own(w->past)->nth) ? &w->p : &w->past;
	struct proc *p = *at;

	*at = p ? p->next : NULL;
	return p;
}

/* What its threads were at: of a process that is past only who it was is asked. */
static void activity_forget(struct proc *p)
{
	p->outside.stacks_unread = NULL;
	for (struct task *t = p->tasks; t; t = t->next) {
		t->kernel_stack = t->user_stack = t->wchan = t->syscall = t->file = t->mount = "";
		t->stack = (struct task_stack){ 0 };
		t->wait = (struct waits_for){ 0 };
	}
}

static void procs_choose(struct model *m)
{
	struct census n = census_of(m);
	struct walk w = walk_begin(m);

	leaders_keep(m);
	for (struct proc *p; (p = walk_next(&w));) {
		struct proc_own *own = proc_own(p);
		bool old = m->now_ns > p->exit_ns + KEEP_NS, was_past = own->past;

		own->past = false;
		if (!p->dead || p->members || own->needed)
			continue;
		own->reaped = n.dead > DEAD_MAX || (old && (!is_rank(p) || n.dead_ranks > DEAD_RANKS_MAX));
		if (old && !was_past)
			activity_forget(p);
		own->past = old;
		n.dead -= own->reaped;
		n.dead_ranks -= own->reaped && is_rank(p);
	}
}

static void proc_reap(struct model *m, struct proc *p)
{
	comm_inits_forget_proc(m, p);
	qps_forget_proc(m, p);
	proc_unhash(m, proc_own(p));
	proc_unrank(m, proc_own(p));
	p->node->n_procs--;
	proc_free(proc_own(p));
	m->n_procs--;
	m->state->ahead_stale = true;
}

static void procs_sweep(struct model *m)
{
	struct proc *past = NULL, **tail = &m->procs, **past_tail = &past, ***to;
	struct walk w;

	procs_choose(m);
	for (struct proc *p = m->procs; p; p = proc_next(p))
		if (p->leader && proc_own(p->leader)->reaped)
			p->leader = NULL;
	w = walk_begin(m);
	for (struct proc *p; (p = walk_next(&w));) {
		if (proc_own(p)->reaped) {
			proc_reap(m, p);
			continue;
		}
		to = proc_own(p)->past ? &past_tail : &tail;
		**to = p;
		*to = &p->next;
	}
	*past_tail = NULL;
	*tail = m->past = past;
	m->procs_tail = tail;
	m->state->n_died = 0;
}

static void sweep(struct model *m)
{
	if (m->state->out_head) /* readers of operations may still look at what they point to */
		return;
	m->state->swept_ns = m->now_ns;
	comms_sweep(m);
	procs_sweep(m);
}

void reap_tick(struct model *m)
{
	if (m->now_ns >= m->state->swept_ns + SWEEP_EVERY_NS)
		sweep(m);
}

void reap_died(struct model *m)
{
	if (++m->state->n_died > DEAD_MAX) /* a storm between two ticks */
		sweep(m);
}
