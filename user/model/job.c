/* SPDX-License-Identifier: Apache-2.0
 *
 * job.c - the jobs of the model's processes (job/jobs.h). What they are is settled at a tick after something changed:
 * a process came, went or has another rank, or a communicator ties two places.
 */
#include <errno.h>
#include <string.h>

#include "base/intern.h"
#include "model/state.h"

static void scope_set(struct proc_own *p, struct job_scope *s)
{
	if (s)
		s->n_procs++;
	proc_leave(p);
	p->scope = s;
	p->p.job = s ? s->job : &job_none;
}

void proc_leave(struct proc_own *p)
{
	if (p->scope)
		p->scope->n_procs--;
	p->scope = NULL;
}

int proc_place(struct model *m, struct proc_own *p, const struct event_proc *e)
{
	struct job_place at = { .host = p->p.node->number,
				.netns = e->netns,
				.user = e->user,
				.host_name = p->p.node->name,
				.pod = p->p.pod,
				.pod_name = p->p.pod_name,
				.container = p->p.container,
				.cgroup = e->cgroup,
				.nameless = e->nameless,
				.placeless = e->placeless };
	const char *name = e->nameless ? INTERN_FULL : e->job ? e->job : "";
	struct job_scope *s = jobs_scope(m->state->jobs, name, &at);

	if (!s)
		return -ENOMEM;
	scope_set(p, s);
	m->state->jobs_stale |= !p->p.is_child;
	return 0;
}

void proc_follow(struct model *m, struct proc *p, const struct proc *leader)
{
	const struct proc_own *own = (const struct proc_own *)leader;

	if (own && own->scope && own->scope != proc_own(p)->scope) {
		scope_set(proc_own(p), own->scope);
		m->state->jobs_stale = true;
	}
}

/* Whose communicators it may be in; 0 unknown. Borders of containers are the kernel's, and a job may span them. */
uint64_t proc_owner(const struct proc *p)
{
	const struct job_scope *s = ((const struct proc_own *)p)->scope;
	bool contained = s && (*job_place_text(s->place.container) || *job_place_text(s->place.pod));

	return !s ? 0 : contained ? 1 : s->place.user ? s->place.user + 1ull : 0;
}

uint64_t proc_texts_owner(const struct proc *p)
{
	const struct job_scope *s = ((const struct proc_own *)p)->scope;

	return s ? event_proc_owner(s->place.user, s->place.container) : 0;
}

static bool same_text(const char *a, const char *b)
{
	return !strcmp(a ? a : "", b ? b : "");
}

/* A child may have a cgroup of its own. */
static bool near(const struct job_scope *a, const struct job_scope *b)
{
	return a == b || (a && b && !strcmp(a->name, b->name) && a->place.nameless == b->place.nameless &&
			  a->place.placeless == b->place.placeless && a->place.host == b->place.host &&
			  a->place.netns == b->place.netns && a->place.user == b->place.user &&
			  same_text(a->place.pod, b->place.pod) && same_text(a->place.container, b->place.container));
}

bool same_rank(const struct proc *a, const struct proc *b)
{
	return a->rank >= 0 && a->rank == b->rank &&
	       near(((const struct proc_own *)a)->scope, ((const struct proc_own *)b)->scope);
}

static bool is_here(const struct member *mb)
{
	return !mb->gone && !mb->proc->dead && proc_own(mb->proc)->scope;
}

void member_tied(struct model *m, const struct member *mb)
{
	const struct member *other = mb->next_in_comm;

	while (other && !is_here(other))
		other = other->next_in_comm;
	if (other && proc_own(other->proc)->scope != proc_own(mb->proc)->scope)
		m->state->jobs_stale = true;
}

static void comm_tie(const struct comm *c)
{
	const struct member *first = c->members, *mb;

	while (first && !is_here(first))
		first = first->next_in_comm;
	for (mb = first ? first->next_in_comm : NULL; mb; mb = member_next_in_comm(mb))
		if (is_here(mb))
			jobs_tie(proc_own(first->proc)->scope, proc_own(mb->proc)->scope);
}

int jobs_tick(struct model *m)
{
	struct jobs *jobs = m->state->jobs;
	int err = 0, one;

	if (!m->state->jobs_stale)
		return 0;
	jobs_begin(jobs);
	for (struct proc *p = m->procs; p != m->past && !err; p = proc_next(p))
		if (!p->dead && !p->is_child && proc_own(p)->scope)
			err = jobs_rank(jobs, proc_own(p)->scope, p->rank, p->world_size);
	for (const struct comm *c = m->comms; c && !err; c = c->next)
		comm_tie(c);
	one = err ? 0 : jobs_settle(jobs);
	for (struct proc *p = m->procs; p; p = proc_next(p))
		if (proc_own(p)->scope)
			p->job = proc_own(p)->scope->job;
	m->state->jobs_stale = err || one;
	return err ? err : one;
}
