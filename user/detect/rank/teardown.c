/* SPDX-License-Identifier: Apache-2.0
 *
 * teardown.c - a job that ends takes its ranks down one after the other, and those that are left wait for the dead. It
 * is a fault only when deaths have ceased, most of the job lives, and the rank was not asked to go.
 */
#include "detect/rank/teardown.h"

#include <string.h>

#include "base/larger.h"
#include "detect/rank/activity.h"

#define TOGETHER_NS 30000000000ull /* deaths that close belong to one end: a launcher's grace is 30 s */
/* After SIGTERM the others follow within that, if asked, too: ranks inside a call of the driver run no handler
 * of Python's, and are killed behind the grace of 30 s (Kubernetes, Slurm's KillWait, torchrun). */
#define ASKED_NS 35000000000ull
#define DEAD_FLOORS 2 /* hang floors since then: peers wait for it */

/* Another process goes on as this rank: a launcher that starts ranks anew ended the old one for it. */
static bool has_successor(const struct model *m, const struct proc *p)
{
	for (const struct proc *o = m->procs; o && p->rank >= 0; o = o->next)
		if (!o->dead && !o->is_child && o->rank == p->rank && o->job == p->job && o->start_ns > p->start_ns)
			return true;
	return false;
}

/* SIGHUP, SIGINT, SIGTERM: somebody ends it, a crash or the memory killer looks different. */
static bool is_asking(int signal)
{
	return signal == 1 || signal == 2 || signal == 15;
}

/* Or its own handler ended it, with the code that shells use. */
static bool was_asked(const struct proc *p)
{
	return is_asking(p->exit_signal) || (p->exit_code > 128 && is_asking(p->exit_code - 128));
}

static bool same_job(const struct proc *a, const struct proc *b)
{
	return rank_counts(b) && a->world_size == b->world_size && a->job == b->job;
}

static uint64_t apart_ns(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* Its own death, and all that are closer to it than that. */
static struct deaths deaths_count(const struct model *m, const struct proc *p, uint64_t closer_ns)
{
	struct deaths d = { .of = p, .first_ns = p->exit_ns, .last_ns = p->exit_ns };

	for (const struct proc *o = m->procs; o; o = o->next) {
		if (!same_job(p, o))
			continue;
		if (!o->dead)
			d.n_alive++;
		else if (apart_ns(o->exit_ns, p->exit_ns) < closer_ns) {
			d.n_dead++;
			d.first_ns = smaller(d.first_ns, o->exit_ns);
			d.last_ns = larger(d.last_ns, o->exit_ns);
		}
	}
	return d;
}

static bool is_teardown(const struct deaths *d, const struct model *m, const struct proc *p)
{
	if (d->n_dead > d->n_alive && d->n_dead > 1)
		return true;
	if (m->now_ns < d->last_ns + m->hang_floor_ns)
		return true;
	return was_asked(p) && (m->now_ns < p->exit_ns + ASKED_NS || has_successor(m, p));
}

bool death_is_teardown(const struct model *m, const struct proc *p)
{
	struct deaths close = deaths_count(m, p, TOGETHER_NS);

	return is_teardown(&close, m, p);
}

static bool died_badly(const struct proc *p)
{
	return p->dead && (p->exit_signal || p->exit_code);
}

bool death_is_fault(const struct model *m, const struct proc *p)
{
	return died_badly(p) && !death_is_teardown(m, p);
}

/* Where all deaths of a job are close to each other, what holds for one's neighbours holds for all's. */
bool death_is_fault_of(struct deaths *d, const struct model *m, const struct proc *p)
{
	if (!died_badly(p))
		return false;
	if (!rank_counts(p))
		return death_is_fault(m, p);
	if (!d->of || d->of->job != p->job || d->of->world_size != p->world_size)
		*d = deaths_count(m, p, UINT64_MAX);
	return !(d->last_ns - d->first_ns < TOGETHER_NS ? is_teardown(d, m, p) : death_is_teardown(m, p));
}

/* It left a communicator that others still have: not so where they made theirs anew without it, nor of a process that
 * only bears the job's name. */
static bool has_left_peers(const struct proc *p)
{
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
		for (const struct member *o = mb->gone ? NULL : mb->comm->members; o; o = member_next_in_comm(o))
			if (!o->gone && !o->proc->dead)
				return true;
	return false;
}

const struct proc *death_inside(const struct model *m, const struct job_id *job, uint64_t since_ns)
{
	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p))
		if (p->job == job && !p->is_child && death_is_fault(m, p) && has_left_peers(p) &&
		    m->now_ns >= larger(since_ns, p->exit_ns) + DEAD_FLOORS * m->hang_floor_ns)
			return p;
	return NULL;
}
