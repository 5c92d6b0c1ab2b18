/* SPDX-License-Identifier: Apache-2.0
 *
 * ranks.c - processes by the rank that they carry, and which of a rank's is its own, the leader of its children. Of a
 * job of ten thousand ranks all processes cannot be walked for each one that comes.
 */
#include <errno.h>
#include <stdlib.h>

#include "model/state.h"

static struct rank_procs *ranks_find(const struct model *m, int rank)
{
	struct rank_procs *all;

	HASH_FIND_INT(m->state->ranks, &rank, all);
	return all;
}

void proc_unrank(struct model *m, struct proc_own *p)
{
	struct rank_procs *all = p->of_rank;
	struct proc_own **link = all ? &all->first : NULL;

	if (!all)
		return;
	while (*link != p)
		link = &(*link)->next_same_rank;
	*link = p->next_same_rank;
	p->of_rank = NULL;
	if (all->first)
		return;
	HASH_DEL(m->state->ranks, all);
	free(all);
}

int rank_set(struct model *m, struct proc_own *p, int rank)
{
	struct rank_procs *all = rank >= 0 ? ranks_find(m, rank) : NULL;

	p->p.rank = rank;
	if (p->of_rank && p->of_rank->rank == rank)
		return 0;
	proc_unrank(m, p);
	if (rank < 0)
		return 0;
	if (!all) {
		all = calloc(1, sizeof(*all));
		if (!all)
			return -ENOMEM;
		all->rank = rank;
		HASH_ADD_INT(m->state->ranks, rank, all);
		if (!all->hh.tbl) {
			free(all);
			return -ENOMEM;
		}
	}
	p->of_rank = all;
	p->next_same_rank = all->first;
	all->first = p;
	return 0;
}

const struct proc *model_rank(const struct model *m, const struct job_id *job, int rank)
{
	const struct rank_procs *all = ranks_find(m, rank);
	const struct proc_own *best = NULL;

	for (const struct proc_own *p = all ? all->first : NULL; p; p = p->next_same_rank) {
		if (p->p.is_child || (job && job != p->p.job))
			continue;
		if (!best || (best->p.dead != p->p.dead ? best->p.dead : p->nth > best->nth))
			best = p; /* of an elastic job the living one, else the newest */
	}
	return best ? &best->p : NULL;
}

static struct proc *leader_find(struct model *m, struct proc *p)
{
	const struct proc *parent = model_proc(m, proc_key(p->node->number, p->parent_tgid));
	const struct rank_procs *all = p->rank >= 0 ? ranks_find(m, p->rank) : NULL;
	struct proc_own *first = NULL;

	if (parent && parent != p && parent->leader && same_rank(parent->leader, p))
		return parent->leader;
	for (struct proc_own *o = all ? all->first : NULL; o; o = o->next_same_rank)
		if (!o->p.is_child && !o->p.dead && &o->p != p && same_rank(&o->p, p) &&
		    (!first || o->nth < first->nth))
			first = o;
	return first ? &first->p : NULL;
}

void leaders_link(struct model *m, struct proc *p)
{
	const struct rank_procs *all = ranks_find(m, p->rank);

	p->leader = p->is_child ? leader_find(m, p) : p;
	if (p->is_child)
		proc_follow(m, p, p->leader);
	if (p->is_child || p->rank < 0)
		return;
	for (struct proc_own *c = all ? all->first : NULL; c; c = c->next_same_rank) /* reported before their rank */
		if (c->p.is_child && !c->p.leader && same_rank(&c->p, p)) {
			c->p.leader = p;
			proc_follow(m, &c->p, p);
		}
}

void ranks_free(struct model *m)
{
	struct rank_procs *all, *next;

	HASH_ITER (hh, m->state->ranks, all, next) {
		HASH_DEL(m->state->ranks, all);
		free(all);
	}
}
