/* SPDX-License-Identifier: Apache-2.0
 *
 * roots_filter.c - see wait_roots.h. Where a root sits is compared with the places of all who wait, which are few.
 */
#include "detect/hang/wait_roots.h"

#include <errno.h>
#include <stdlib.h>

#include "detect/hang/classify.h"
#include "detect/rank/places.h"
#include "detect/transfer/stalled_transfer.h"
#include "detect/rank/counters.h"

#define CONFIDENCE_UNDECIDED 0.4 /* below what a culprit is named with certainty for */

static int proc_cmp(const void *a, const void *b)
{
	const struct proc *x = *(const struct proc *const *)a, *y = *(const struct proc *const *)b;

	return x < y ? -1 : x > y;
}

/* Those of its members that are ahead of others and stay there. */
static void comm_waiters_add(const struct comm *c, const struct proc **roots, int n_roots, struct places *to)
{
	uint64_t lo, hi;

	if (!comm_span(c, SEQ_COLL, &lo, &hi))
		return;
	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb))
		if (mb->entered_seq[SEQ_COLL] > lo && counters_still_ns(mb) &&
		    !bsearch(&mb->proc, roots, n_roots, sizeof(*roots), proc_cmp))
			places_add(to, places_main_task(mb->proc));
}

/* Where those wait that are no roots. 0 or -ENOMEM. */
static int waiters_find(const struct model *m, const struct wait_roots *found, struct places *ret)
{
	const struct proc **roots = calloc(found->n_roots + 1, sizeof(*roots));

	ret->n = 0;
	if (!roots)
		return -ENOMEM;
	for (int i = 0; i < found->n_roots; i++)
		roots[i] = found->roots[i].proc;
	qsort(roots, found->n_roots, sizeof(*roots), proc_cmp);
	for (const struct comm *c = m->comms; c; c = c->next)
		comm_waiters_add(c, roots, found->n_roots, ret);
	free(roots);
	return 0;
}

/* It entered what no member that is seen is ahead of, and others are not seen. */
static bool may_wait_for_unseen(const struct proc *p)
{
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
		if (counters_still_ns(mb) && mb->comm->by_rank && mb->comm->n_seen < mb->comm->nranks &&
		    mb->entered_seq[SEQ_COLL] && mb->entered_seq[SEQ_COLL] == mb->comm->highest_seq[SEQ_COLL])
			return true;
	return false;
}

static bool is_waiting(const struct places *waiters, const struct proc *p)
{
	return proc_by_counters(p) && places_alike(waiters, places_main_task(p), true);
}

/* It is past its limit by one sample, others will be by the next: that says nothing of which was late first. */
static bool first_of_several(const struct model *m, struct wait_roots *soon)
{
	return !model_is_autopsy(m) && !wait_roots_soon(m, SAMPLES_APART_NS, soon) && soon->n_roots > 1;
}

/* What else it may be: a single root waits for no rank, as far as is seen. */
static int waits_judge(const struct model *m, struct wait_roots *found, const struct places *waiters,
		       struct wait_roots *soon)
{
	int n_waits = 0;

	for (int i = 0; i < found->n_roots; i++) {
		struct wait_root *r = &found->roots[i];

		r->waits = is_waiting(waiters, r->proc) &&
			   (found->n_roots > 1 || may_wait_for_unseen(r->proc) || first_of_several(m, soon));
		n_waits += r->waits;
	}
	return n_waits;
}

int roots_filter(const struct model *m, struct wait_roots *found, struct wait_roots *soon)
{
	struct places waiters;
	int n = 0, err = found->n_roots ? waiters_find(m, found, &waiters) : 0;
	int n_waits = err ? 0 : waits_judge(m, found, &waiters, soon);

	for (int i = 0; i < found->n_roots && !err; i++) {
		struct wait_root r = found->roots[i];

		if (r.waits && n_waits < found->n_roots)
			continue;
		r.confidence = r.waits ? CONFIDENCE_UNDECIDED : r.confidence;
		found->roots[n++] = r;
	}
	found->n_roots = err ? 0 : n;
	return err;
}

/* --- inside what all entered --- */

/* Of the peers' transfers not all is known, on other nodes or not yet; but some went on in this communicator, and this
 * member is at an operation of it still: what brings its data delays it. */
static bool left_behind(const struct model *m, const struct member *mb)
{
	if (!member_transfers_now(m, mb) || transfers_known(m, mb->comm))
		return false;
	for (const struct member *o = mb->comm->members; o; o = member_next_in_comm(o))
		if (o != mb && !o->gone && o->entered_seq[SEQ_COLL] > mb->entered_seq[SEQ_COLL])
			return true;
	return false;
}

/* In that operation or in a later one, which waits for it. */
static bool is_inside(const struct model *m, const struct proc *p)
{
	struct stalled_transfer t;

	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb)) {
		if (mb->gone)
			continue;
		if ((member_transfers(mb) || proxy_thread_judge(mb) == PROXY_STARVED) &&
		    stalled_transfer_find(m, mb->comm, &t))
			return true;
		if (left_behind(m, mb))
			return true;
	}
	return false;
}

void roots_filter_inside(const struct model *m, struct wait_roots *found)
{
	struct stalled_transfer t;
	bool proven = (found->n_roots || found->n_cycles) && stalled_transfer_proven(m, &t);
	int n = 0;

	for (int i = 0; i < found->n_roots; i++) {
		const struct proc *p = found->roots[i].proc;

		if (proc_gone_or_stopped(p) || (!proven && !is_inside(m, p)))
			found->roots[n++] = found->roots[i];
	}
	found->n_roots = n;
	found->n_cycles = proven ? 0 : found->n_cycles;
}

bool roots_undecided(const struct model *m, uint64_t since_ns)
{
	if (m->now_ns >= since_ns + TRANSFER_SAMPLES_NS(m))
		return false;
	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p))
		for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
			if (!p->dead && !mb->gone && member_transfers(mb))
				return true;
	return false;
}

/* --- what they explain --- */

bool wait_roots_explain(const struct wait_roots *found, const struct job_id *job)
{
	if (found->missing_waited_for && found->missing == job)
		return true;
	for (int i = 0; i < found->n_roots; i++)
		if (found->roots[i].proc->job == job)
			return true;
	for (int i = 0; i < found->n_cycles; i++)
		if (found->cycles[i].n_hops && found->cycles[i].hops[0].rank.proc->job == job)
			return true;
	for (int i = 0; i < found->n_named; i++)
		if (found->named[i] == job)
			return true;
	return false;
}

int wait_roots_named(struct wait_roots *found, const struct job_id *job)
{
	int cap = found->cap_named ? 2 * found->cap_named : 8;
	const struct job_id **grown = found->named;

	if (found->n_named == found->cap_named) {
		grown = realloc(found->named, (size_t)cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		found->cap_named = cap;
	}
	found->named = grown;
	found->named[found->n_named++] = job;
	return 0;
}
