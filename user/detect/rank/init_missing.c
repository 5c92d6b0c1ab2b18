/* SPDX-License-Identifier: Apache-2.0
 *
 * init_missing.c - see init_missing.h. A Split is called by all of its parent; an id that all of the world got is
 * called by rank r of the job as rank r. Anything else only shows how many are missing.
 */
#include "detect/rank/init_missing.h"

#include <stdlib.h>

#include "base/hash.h"
#include "detect/rank/activity.h"

#define INIT_LIMIT_NS 4500000000ull /* ranks of a job start apart: imports, data sets, caches */

uint64_t comm_init_key(const struct comm_init *b)
{
	uint64_t h = hash_mix(hash_mix(7, b->id_hash), b->parent ? b->parent->hash : 0);

	return hash_mix(hash_mix(h, b->nth), b->kind);
}

uint64_t comm_init_since_ns(const struct comm_init *b)
{
	uint64_t since = UINT64_MAX;

	for (const struct comm_init_member *bm = b->members; bm; bm = bm->next)
		if (comm_init_waits(bm) && bm->since_ns < since)
			since = bm->since_ns;
	return since;
}

uint64_t comm_init_limit_ns(const struct model *m, const struct proc *p)
{
	return proc_gone_or_stopped(p) ? m->hang_floor_ns : INIT_LIMIT_NS;
}

bool job_creates(const struct model *m, const struct job_id *job)
{
	for (const struct comm_init *b = m->comm_inits; b; b = b->next)
		for (const struct comm_init_member *bm = b->members; bm; bm = bm->next)
			if (bm->proc->job == job)
				return true;
	return false;
}

struct called {
	const struct proc *proc;
	int rank; /* of a process that is several ranks: which called, as in struct comm_init_member; else 0 */
};

static int called_cmp(const void *a, const void *b)
{
	const struct called *x = a, *y = b;

	if (x->proc != y->proc)
		return x->proc < y->proc ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

struct callers {
	struct called *by;
	size_t n;
};

static bool callers_list(const struct comm_init *b, struct callers *c)
{
	size_t n = 0;

	for (const struct comm_init_member *bm = b->members; bm; bm = bm->next)
		n++;
	*c = (struct callers){ .by = calloc(n + 1, sizeof(*c->by)) };
	for (const struct comm_init_member *bm = b->members; c->by && bm; bm = bm->next)
		c->by[c->n++] = (struct called){ bm->proc, bm->proc->shared ? bm->rank : 0 };
	if (c->by)
		qsort(c->by, c->n, sizeof(*c->by), called_cmp);
	return c->by != NULL;
}

static bool has_called(const struct callers *c, const struct proc *p, int rank)
{
	struct called want = { p, p->shared ? rank : 0 };

	return bsearch(&want, c->by, c->n, sizeof(*c->by), called_cmp) != NULL;
}

/* Every caller is in the new communicator what it is in the job, and both are of one size. */
static bool is_world(const struct comm_init *b)
{
	for (const struct comm_init_member *bm = b->members; bm; bm = bm->next)
		if (bm->rank < 0 || bm->rank != bm->proc->rank || bm->proc->world_size != b->nranks)
			return false;
	return b->members && b->nranks > 0;
}

static bool of_its_job(const struct comm_init *b, const struct proc *p)
{
	const struct proc *one = b->members->proc;

	return !p->is_child && p->rank >= 0 && p->world_size == one->world_size && p->job == one->job;
}

/* Of a rank's incarnations the living one; one that died long before belongs to an earlier life of the job. */
static bool is_newest(const struct model *m, const struct comm_init *b, const struct proc *p)
{
	return !p->dead || (model_rank(m, p->job, p->rank) == p && p->exit_ns + 60000000000ull > b->first_ns);
}

static int missing_of_job(const struct model *m, const struct comm_init *b, const struct callers *c,
			  struct rank_ref *list)
{
	int n = 0;

	for (const struct proc *p = m->procs; p && n < INIT_MISSING_MAX; p = proc_next(p))
		if (of_its_job(b, p) && !has_called(c, p, 0) && is_newest(m, b, p))
			list[n++] = (struct rank_ref){ p, NULL };
	return n;
}

/* Members of a communicator whose ranks are the callers'. */
static int missing_of(const struct comm *of, const struct callers *c, struct rank_ref *list)
{
	int n = 0;

	for (int r = 0; of->by_rank && r < of->nranks && n < INIT_MISSING_MAX; r++) {
		const struct member *mb = of->by_rank[r];

		if (mb && !mb->gone && !has_called(c, mb->proc, r))
			list[n++] = (struct rank_ref){ mb->proc, mb->proc->shared ? mb : NULL };
	}
	return n;
}

/* --- an id for the whole world, where processes are several ranks --- */

static bool caller_is(const struct comm *c, const struct comm_init_member *bm)
{
	const struct member *mb = bm->rank >= 0 && bm->rank < c->nranks ? c->by_rank[bm->rank] : NULL;

	return mb && !mb->gone && mb->proc == bm->proc && (!mb->proc->shared || seat_own_tid(mb) == bm->tid);
}

/* Every caller is in the new communicator what its thread is in this one, and both are of one size. */
static bool is_like(const struct comm *c, const struct comm_init *b)
{
	if (!c->by_rank || c->nranks != b->nranks)
		return false;
	for (const struct comm_init_member *bm = b->members; bm; bm = bm->next)
		if (!caller_is(c, bm))
			return false;
	return true;
}

static bool any_shared(const struct comm_init *b)
{
	for (const struct comm_init_member *bm = b->members; bm; bm = bm->next)
		if (bm->proc->shared)
			return true;
	return false;
}

static bool same_ranks(const struct rank_ref *list, int n, const struct comm *a, const struct comm *b)
{
	for (int i = 0; i < n; i++) {
		const struct member *x = list[i].seat, *y = x && x->comm == a ? b->by_rank[x->rank] : NULL;

		if (x && (!y || y->proc != x->proc || y->device != x->device))
			return false;
	}
	return true;
}

/* As the job's own numbers say it where each process is one rank: what such a communicator's ranks are is known of one
 * of the same size. Where several would do, they must agree. *ret_one: one does. */
static int missing_of_like(const struct model *m, const struct comm_init *b, const struct callers *c,
			   struct rank_ref *list, bool *ret_one)
{
	const struct comm *of = NULL;
	int n = 0;

	*ret_one = false;
	for (const struct comm *one = m->comms; one; one = one->next) {
		if (!is_like(one, b))
			continue;
		if (of && !same_ranks(list, n, of, one))
			return 0;
		if (!of)
			n = missing_of(one, c, list);
		of = of ? of : one;
	}
	*ret_one = of != NULL;
	return n;
}

/* --- how sure it is --- */

static uint64_t seat_last_call_ns(const struct member *seat)
{
	uint64_t last = 0;

	for (const struct member *mb = seat_next(seat, NULL); mb; mb = seat_next(seat, mb))
		last = mb->last_call_ns > last ? mb->last_call_ns : last;
	return last;
}

/* Probes may have come to a rank that was inside already: only what it did since shows that it is not. Of one whose
 * probes the budget took, nothing does. */
static bool seen_out_of_it(const struct rank_ref *r)
{
	const struct proc *p = r->proc;

	if (!p->dead && p->shed >> PROBES_NEEDED & 1)
		return false;
	return p->dead || !p->attached_ns || (r->seat ? seat_last_call_ns(r->seat) : p->last_call_ns) > p->attached_ns;
}

static bool all_seen_out_of_it(const struct rank_ref *list, int n)
{
	while (n > 0 && seen_out_of_it(&list[n - 1]))
		n--;
	return !n;
}

int comm_init_missing(const struct model *m, const struct comm_init *b, struct rank_ref *list, bool *ret_exact)
{
	struct callers c;
	bool exact = false, like = false;
	int n = 0;

	if (comm_init_since_ns(b) != UINT64_MAX && comm_init_incomplete(b) && callers_list(b, &c)) {
		n = b->parent       ? missing_of(b->parent, &c, list)
		    : any_shared(b) ? missing_of_like(m, b, &c, list, &like)
				    : missing_of_job(m, b, &c, list);
		/* Shrink and Grow: not all of the parent, unless it is all that is left */
		exact = b->parent ? b->kind == COMM_INIT_SPLIT || n == b->nranks - b->n_called : like || is_world(b);
		exact = exact && all_seen_out_of_it(list, n);
		free(c.by);
	}
	if (ret_exact)
		*ret_exact = exact;
	return exact || ret_exact ? n : 0;
}
