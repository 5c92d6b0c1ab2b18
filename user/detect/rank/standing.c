/* SPDX-License-Identifier: Apache-2.0
 *
 * standing.c - see standing.h.
 */
#include "detect/rank/standing.h"

#include "detect/rank/call_site.h"

bool standing_is_rank(const struct proc *p)
{
	return !p->dead && !p->is_child && p->members;
}

bool standing_by_calls(const struct proc *p)
{
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
		if (!mb->gone && mb->last_call_ns)
			return true;
	return false;
}

/* Not so in a stack from before: it may have gone on since. */
static bool waits_inside(const struct proc *p, uint64_t since_ns)
{
	const struct task *t = call_site_task(p);

	return t && t->stack.ns > since_ns && call_site_in_nccl_or_driver(p);
}

/* An object store, a data worker: it sleeps, and gives its GPU more when that is through. */
static bool waits_outside(const struct proc *p, enum activity what, uint64_t since_ns)
{
	const struct task *t = call_site_task(p);

	return what == ACTIVITY_ASLEEP && t && t->stack.ns > since_ns && !call_site_in_nccl_or_driver(p);
}

bool standing_host_works(const struct proc *p, enum activity what, uint64_t since_ns)
{
	return (what == ACTIVITY_BUSY || what == ACTIVITY_UNSETTLED || what == ACTIVITY_DISK) &&
	       !waits_inside(p, since_ns);
}

bool standing_some_work(const struct model *m, const struct job_id *job, uint64_t since_ns)
{
	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p))
		if (standing_is_rank(p) && p->job == job && !waits_inside(p, since_ns)) {
			enum activity what = rank_activity(m, p, since_ns).what;

			if (standing_host_works(p, what, since_ns) || waits_outside(p, what, since_ns))
				return true;
		}
	return false;
}

const struct member *standing_last_moved(const struct model *m, const struct job_id *job)
{
	const struct member *best = NULL;

	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p))
		for (const struct member *mb = standing_is_rank(p) && p->job == job ? p->members : NULL; mb;
		     mb = member_next_in_proc(mb))
			if (!mb->gone && mb->entered_seq[SEQ_COLL] &&
			    (!best || mb->samples.since_ns > best->samples.since_ns))
				best = mb;
	return best;
}

bool standing_all_seen(const struct model *m, const struct job_id *job)
{
	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p))
		for (const struct member *mb = standing_is_rank(p) && p->job == job ? p->members : NULL; mb;
		     mb = member_next_in_proc(mb))
			if (!mb->gone && mb->comm->n_seen < mb->comm->nranks)
				return false;
	return true;
}
