/* SPDX-License-Identifier: Apache-2.0
 *
 * comm_init.c - who is missing in the creation of a communicator. A Split is called by all of its parent; an id that
 * all of the world got is called by rank r of the job as rank r. Anything else only tells how many are missing.
 */
#include "detect/hang/comm_init.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "detect/rank/activity.h"

#define INIT_LIMIT_NS 5000000000ull /* ranks of a job start apart: imports, data sets, caches */

uint64_t comm_init_key(const struct birth *b)
{
	uint64_t h = hash_mix(hash_mix(7, b->id_hash), b->parent ? b->parent->hash : 0);

	return hash_mix(hash_mix(h, b->nth), b->kind);
}

uint64_t comm_init_since_ns(const struct birth *b)
{
	uint64_t since = UINT64_MAX;

	for (const struct birth_member *bm = b->members; bm; bm = bm->next)
		if (comm_init_waits(bm) && bm->since_ns < since)
			since = bm->since_ns;
	return since;
}

uint64_t comm_init_limit_ns(const struct model *m, const struct proc *p)
{
	return proc_gone_or_stopped(p) ? m->hang_floor_ns : INIT_LIMIT_NS;
}

static int proc_cmp(const void *a, const void *b)
{
	const struct proc *x = *(const struct proc *const *)a, *y = *(const struct proc *const *)b;

	return x < y ? -1 : x > y;
}

struct callers {
	const struct proc **by;
	size_t n;
};

static bool callers_list(const struct birth *b, struct callers *c)
{
	size_t n = 0;

	for (const struct birth_member *bm = b->members; bm; bm = bm->next)
		n++;
	*c = (struct callers){ .by = calloc(n + 1, sizeof(*c->by)) };
	for (const struct birth_member *bm = b->members; c->by && bm; bm = bm->next)
		c->by[c->n++] = bm->proc;
	if (c->by)
		qsort(c->by, c->n, sizeof(*c->by), proc_cmp);
	return c->by != NULL;
}

static bool has_called(const struct callers *c, const struct proc *p)
{
	return bsearch(&p, c->by, c->n, sizeof(*c->by), proc_cmp) != NULL;
}

/* Every caller is in the new communicator what it is in the job, and both are of one size. */
static bool is_world(const struct birth *b)
{
	for (const struct birth_member *bm = b->members; bm; bm = bm->next)
		if (bm->rank < 0 || bm->rank != bm->proc->rank || bm->proc->world_size != b->nranks)
			return false;
	return b->members && b->nranks > 0;
}

static bool of_its_job(const struct birth *b, const struct proc *p)
{
	const struct proc *one = b->members->proc;

	return !p->is_child && p->rank >= 0 && p->world_size == one->world_size && !strcmp(p->job, one->job);
}

/* Of a rank's incarnations the living one; one that died long before belongs to an earlier life of the job. */
static bool is_newest(const struct model *m, const struct birth *b, const struct proc *p)
{
	return !p->dead || (model_rank(m, p->job, p->rank) == p && p->exit_ns + 60000000000ull > b->first_ns);
}

static int missing_of_job(const struct model *m, const struct birth *b, const struct callers *c,
			  const struct proc **list)
{
	int n = 0;

	for (const struct proc *p = m->procs; p && n < INIT_MISSING_MAX; p = p->next)
		if (of_its_job(b, p) && !has_called(c, p) && is_newest(m, b, p))
			list[n++] = p;
	return n;
}

static int missing_of_parent(const struct birth *b, const struct callers *c, const struct proc **list)
{
	int n = 0;

	for (int r = 0; b->parent->by_rank && r < b->parent->nranks && n < INIT_MISSING_MAX; r++) {
		const struct member *mb = b->parent->by_rank[r];

		if (mb && !mb->gone && !has_called(c, mb->proc))
			list[n++] = mb->proc;
	}
	return n;
}

/* Probes may have come to a rank that was inside already: only what it did since shows that it is not. */
static bool seen_outside(const struct proc *p)
{
	return p->dead || p->last_call_ns > p->attached_ns || !p->attached_ns;
}

static bool all_seen_outside(const struct proc *const *list, int n)
{
	while (n > 0 && seen_outside(list[n - 1]))
		n--;
	return !n;
}

int comm_init_missing(const struct model *m, const struct birth *b, const struct proc **list, bool *ret_exact)
{
	struct callers c;
	bool exact = false;
	int n = 0;

	if (comm_init_since_ns(b) != UINT64_MAX && comm_init_incomplete(b) && callers_list(b, &c)) {
		n = b->parent ? missing_of_parent(b, &c, list) : missing_of_job(m, b, &c, list);
		/* Shrink and Grow: not all of the parent, unless it is all that is left */
		exact = b->parent ? b->kind == COMM_INIT_SPLIT || n == b->nranks - b->n_called : is_world(b);
		exact = exact && all_seen_outside(list, n);
		free(c.by);
	}
	if (ret_exact)
		*ret_exact = exact;
	return exact || ret_exact ? n : 0;
}

bool comm_init_pending(const struct model *m, const struct birth *b, const struct proc *p, struct pending *l)
{
	const struct proc *missing[INIT_MISSING_MAX];
	int n = comm_init_missing(m, b, missing, NULL);

	while (n > 0 && missing[n - 1] != p)
		n--;
	*l = (struct pending){ .space = SPACE_INIT,
			       .peer = -1,
			       .seq = comm_init_key(b),
			       .since_ns = comm_init_since_ns(b),
			       .limit_ns = comm_init_limit_ns(m, p),
			       .birth = b };
	for (const struct birth_member *bm = b->members; bm; bm = bm->next)
		l->n_waiting += comm_init_waits(bm);
	return n > 0;
}
