/* SPDX-License-Identifier: Apache-2.0
 *
 * rank_tree.c - which process is a rank and which processes belong to it. Pure: from parents, environments and the
 * presence of libraries. Of a chain with one RANK the topmost with communicators is the rank, else the topmost that has
 * the libraries (a shell wrapped around it is not); a process above a *different* RANK, or above one that a more
 * trusted launcher gives, is a launcher (torchrun's agent in a Kubernetes pod has one, and under srun a SLURM_PROCID).
 */
#include "inspect/discover/discover_private.h"

#include <string.h>

#define DEPTH_MAX 64 /* parents are read one by one: a loop is possible */

static bool has_identity(const struct proc_row *p)
{
	return (p->has_env || p->adopted) && p->env.rank >= 0 && !p->launcher;
}

static bool same_identity(const struct proc_row *a, const struct proc_row *b)
{
	return a->env.source == b->env.source && a->env.rank == b->env.rank && a->env.world_size == b->env.world_size &&
	       !strcmp(a->env.job, b->env.job);
}

static struct proc_row *parent_of(const struct target_set *s, const struct proc_row *p)
{
	return p->pub.parent_tgid ? proc_row_find(s, p->pub.parent_tgid) : NULL;
}

static void mark_launchers(const struct target_set *s, const struct proc_row *p)
{
	struct proc_row *a = parent_of(s, p);

	for (int depth = 0; a && depth < DEPTH_MAX; depth++, a = parent_of(s, a))
		if (a->has_env && a->env.rank >= 0 && !a->has_comm && !same_identity(a, p))
			a->launcher = true;
}

/* Forked from it without an exec, it has the libraries of it: on a busy host a child's files may be read first. */
static bool is_read_later(const struct proc_row *p, const struct proc_row *child)
{
	return child && child->pub.parent_tgid == p->pub.tgid && child->image == p->image &&
	       (!p->seen_maps || p->retry_ns);
}

static struct proc_row *find_owner(const struct target_set *s, struct proc_row *p)
{
	const struct proc_row *who = NULL; /* the nearest that says its rank */
	struct proc_row *any = NULL, *with_libs = NULL, *with_comm = NULL;

	for (int depth = 0; p && depth < DEPTH_MAX; depth++, p = parent_of(s, p)) {
		if (!has_identity(p))
			continue;
		if (!who)
			who = p;
		if (!same_identity(who, p))
			continue;
		/* Every script of a Slurm step has its variables: that alone makes no rank. */
		if (!rank_source_is_inherited_by_all(p->env.source))
			any = p;
		/* adopted: its maps cannot be read either */
		if (p->pub.n_libs || p->adopted || is_read_later(p, with_libs))
			with_libs = p;
		if (p->has_comm)
			with_comm = p;
	}
	return with_comm ? with_comm : with_libs ? with_libs : any;
}

/* A shell with RANK above the process that does the work is part of the launcher; so is a program with the libraries
 * above the one with the communicators. */
static void drop_wrappers(const struct target_set *s, const struct proc_row *rank)
{
	struct proc_row *a = parent_of(s, rank);

	for (int depth = 0; a && depth < DEPTH_MAX; depth++, a = parent_of(s, a))
		if (has_identity(a) && same_identity(a, rank) && (!a->pub.n_libs || rank->has_comm > a->has_comm))
			a->launcher = true;
}

static bool is_rank(const struct proc_row *p)
{
	return p->owner == p && p->has_comm;
}

/* Equal where it is not known. A job in another container, or another network namespace, is another job; and what one
 * user's process says of itself is nothing against another's. */
static bool same_place(const struct target_proc *a, const struct target_proc *b)
{
	return a->uid == b->uid && a->netns == b->netns && !strcmp(a->container, b->container) &&
	       !strcmp(a->pod, b->pod) && !strcmp(a->place->cgroup, b->place->cgroup);
}

/* Workers spawned by one task of Slurm all say that task's number. */
static void mark_ambiguous(const struct target_set *s, struct proc_row *p)
{
	p->pub.rank_ambiguous = false;
	for (struct proc_row *q = s->active; q && is_rank(p); q = q->next)
		if (q != p && is_rank(q) && same_identity(p, q) && same_place(&p->pub, &q->pub))
			p->pub.rank_ambiguous = true;
}

static void set_rank(struct proc_row *p)
{
	const struct proc_row *o = p->owner;
	bool known = o && !o->pub.rank_ambiguous;
	struct target_proc *t = &p->pub;

	t->rank = known ? o->env.rank : -1;
	t->world_size = known ? o->env.world_size : -1;
	t->local_rank = known ? o->env.local_rank : -1;
	t->rank_tgid = o ? o->pub.tgid : 0;
	t->is_child = o && o != p;
	t->rank_source = !known ? RANK_UNKNOWN : o == p ? o->env.source : RANK_INHERITED;
	t->rank_late = known && o->env.late;
	t->other_source = o ? o->env.other_source : RANK_UNKNOWN;
	t->other_rank = o ? o->env.other_rank : -1;
	t->other_size = o ? o->env.other_size : -1;
	memcpy(t->job, o ? o->env.job : p->env.job, sizeof(t->job));
	memcpy(t->visible_devices, p->has_env ? p->env.visible_devices : "",
	       p->has_env ? sizeof(t->visible_devices) : 1);
	p->listed = t->n_libs || o;
	p->candidate = !p->listed && has_identity(p);
}

/* Unreadable, and next to ranks: most likely one itself, and the one that is wanted. */
static bool is_blocked_sibling(const struct target_set *s, const struct proc_row *p)
{
	if (p->listed || p->is_kernel || p->pub.status != TARGET_BLOCKED || p->pub.parent_tgid <= 1)
		return false;
	for (const struct proc_row *q = s->active; q; q = q->next)
		if (q->listed && q->pub.status != TARGET_BLOCKED &&
		    (q->pub.parent_tgid == p->pub.parent_tgid || q->pub.tgid == p->pub.parent_tgid))
			return true;
	return false;
}

/* A process whose mmap_lock was held before we came says nothing, and one that a busy host has not read yet; a child
 * that it forked has its environment. */
static void adopt(struct target_set *s)
{
	struct proc_row *p;

	for (p = s->active; p; p = p->next)
		p->adopted = false;
	for (const struct proc_row *c = s->active; c; c = c->next) {
		p = c->has_env && c->env.rank >= 0 ? parent_of(s, c) : NULL;
		if (!p || p->has_env || p->image != c->image)
			continue;
		p->env = c->env;
		p->adopted = true;
	}
}

static void tree_build(struct target_set *s)
{
	struct proc_row *p;

	adopt(s);
	for (p = s->active; p; p = p->next)
		p->launcher = false;
	for (p = s->active; p; p = p->next)
		if (p->has_env && p->env.rank >= 0)
			mark_launchers(s, p);
	for (p = s->active; p; p = p->next)
		if (has_identity(p) && p->pub.n_libs && find_owner(s, p) == p)
			drop_wrappers(s, p);
	for (p = s->active; p; p = p->next)
		p->owner = p->is_kernel ? NULL : find_owner(s, p);
	for (p = s->active; p; p = p->next)
		mark_ambiguous(s, p);
	for (p = s->active; p; p = p->next)
		set_rank(p);
	for (p = s->active; p; p = p->next)
		if (is_blocked_sibling(s, p))
			p->listed = true;
}

/* A rank is new, or a process that was there before has an owner now: those below it that rest have one too. */
static bool has_new_owner(struct target_set *s)
{
	bool any = false;

	for (struct proc_row *p = s->active; p; p = p->next) {
		any |= !p->had_owner && p->owner && (p->settled || p->owner == p);
		p->settled = true;
		p->had_owner = p->owner;
	}
	return any;
}

void rank_tree_build(struct target_set *s)
{
	tree_build(s);
	if (!has_new_owner(s))
		return;
	proc_rows_wake(s);
	tree_build(s);
	proc_rows_rest(s);
}
