/* SPDX-License-Identifier: Apache-2.0
 *
 * counters.c - NCCL counts launches by function: what a laggard lacks is the function whose counter its peers have more
 * of.
 */
#include "detect/hang/counters.h"

#include <string.h>

#include "detect/rank/call_site.h"

#define CONFIDENCE_UNDECIDED 0.4 /* below what a culprit is named with certainty for */

static bool by_counters(const struct member *mb)
{
	return mb->samples.counted && !mb->last_call_ns && !mb->from_birth && !mb->gone;
}

uint64_t counters_still_ns(const struct member *mb)
{
	const struct samples *s = &mb->samples;

	return by_counters(mb) && s->seen_ns > s->since_ns ? s->since_ns : 0;
}

/* It was last read before its peers stood still: it may have entered more since, and nobody can read it any more. */
static bool read_too_early(const struct member *mb, uint64_t peer_since_ns)
{
	return mb->proc->dead || mb->samples.seen_ns < peer_since_ns;
}

uint64_t counters_pending_seq(const struct member *mb)
{
	uint64_t seq = mb->entered_seq[SEQ_COLL], least = UINT64_MAX;

	if (!by_counters(mb))
		return seq;
	for (const struct member *o = mb->comm->members; o; o = o->next_in_comm) {
		uint64_t since = o == mb || o->proc->dead ? 0 : counters_still_ns(o);

		if (o == mb || o->proc->dead)
			continue;
		if (!since || !read_too_early(mb, since))
			return seq;
		least = o->entered_seq[SEQ_COLL] < least ? o->entered_seq[SEQ_COLL] : least;
	}
	return least != UINT64_MAX && least > seq + 1 ? least - 1 : seq;
}

/* Whoever is ahead by the least shows best what comes next. */
static const struct member *nearest_ahead(const struct member *mb)
{
	const struct member *best = NULL;
	uint64_t n = mb->entered_seq[SEQ_COLL];

	for (const struct member *o = mb->comm->members; o; o = o->next_in_comm)
		if (counters_still_ns(o) && o->entered_seq[SEQ_COLL] > n &&
		    (!best || o->entered_seq[SEQ_COLL] < best->entered_seq[SEQ_COLL]))
			best = o;
	return best;
}

unsigned int counters_pending_kinds(const struct member *mb)
{
	const struct member *o = by_counters(mb) ? nearest_ahead(mb) : NULL;
	unsigned int kinds = 0;

	for (int k = 0; o && k < OP_KINDS_COUNTED; k++)
		if (o->samples.counters[k] > mb->samples.counters[k])
			kinds |= 1u << k;
	return kinds;
}

enum op_kind counters_kind(const struct member *mb, unsigned int kinds)
{
	const struct member *o = nearest_ahead(mb);
	uint64_t most = 0, lacks;
	int best = OP_ALLREDUCE;

	for (int k = 0; o && k < OP_KINDS_COUNTED; k++) {
		lacks = kinds & 1u << k ? o->samples.counters[k] - mb->samples.counters[k] : 0;
		if (lacks > most) {
			most = lacks;
			best = k;
		}
	}
	return best;
}

/* --- several roots --- */

static const struct task *main_task(const struct proc *p)
{
	const struct task *t = p->tasks;

	while (t && t->tid != p->tgid)
		t = t->next;
	return t;
}

static bool runs(const struct task *t)
{
	return t->state == TASK_RUNNABLE || t->state == TASK_ON_CPU;
}

static bool same_place(const struct task *a, const struct task *b)
{
	if (!a || !b || a->blocked || b->blocked || !a->at_ns || !b->at_ns)
		return false;
	if (call_site_same(a, b) == 0)
		return false;
	if (runs(a) || runs(b))
		return runs(a) && runs(b);
	return a->state == TASK_SLEEP && b->state == TASK_SLEEP && !strcmp(a->syscall, b->syscall) &&
	       !strcmp(a->wchan, b->wchan);
}

static bool is_root(const struct wait_roots *found, const struct proc *p)
{
	for (int i = 0; i < found->n_roots; i++)
		if (found->roots[i].proc == p)
			return true;
	return false;
}

static bool is_ahead(const struct proc *p)
{
	uint64_t lo, hi;

	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
		if (counters_still_ns(mb) && comm_span(mb->comm, SEQ_COLL, &lo, &hi) && mb->entered_seq[SEQ_COLL] > lo)
			return true;
	return false;
}

static bool sits_like_a_waiter(const struct model *m, const struct wait_roots *found, const struct proc *p)
{
	for (const struct proc *o = m->procs; o; o = o->next)
		if (!is_root(found, o) && is_ahead(o) && same_place(main_task(p), main_task(o)))
			return true;
	return false;
}

static bool known_by_counters(const struct proc *p)
{
	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
		if (by_counters(mb))
			return true;
	return false;
}

/* It entered what no member that is seen is ahead of, and others are not seen. */
static bool may_wait_for_unseen(const struct proc *p)
{
	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
		if (counters_still_ns(mb) && mb->comm->by_rank && mb->comm->n_seen < mb->comm->nranks &&
		    mb->entered_seq[SEQ_COLL] && mb->entered_seq[SEQ_COLL] == mb->comm->highest_seq[SEQ_COLL])
			return true;
	return false;
}

void counters_filter_roots(const struct model *m, struct wait_roots *found)
{
	bool waits[ROOTS_MAX];
	int n_waits = 0, n = 0;

	for (int i = 0; i < found->n_roots; i++) {
		const struct proc *p = found->roots[i].proc;

		waits[i] = (found->n_roots > 1 || may_wait_for_unseen(p)) && known_by_counters(p) &&
			   sits_like_a_waiter(m, found, p);
		n_waits += waits[i];
	}
	for (int i = 0; i < found->n_roots; i++) {
		if (waits[i] && n_waits < found->n_roots)
			continue;
		found->roots[n] = found->roots[i];
		if (waits[i])
			found->roots[n].confidence = CONFIDENCE_UNDECIDED;
		n++;
	}
	found->n_roots = n;
}

/* --- cycles --- */

uint64_t counters_since_ns(const struct comm *c, uint64_t seq)
{
	uint64_t since = 0, one;

	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm) {
		one = mb->entered_seq[SEQ_COLL] > seq ? counters_still_ns(mb) : 0;
		if (one && (!since || one < since))
			since = one;
	}
	return since;
}

bool counters_op(const struct comm *c, uint64_t seq, enum op_kind *ret)
{
	unsigned int kinds;

	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm) {
		kinds = mb->entered_seq[SEQ_COLL] == seq ? counters_pending_kinds(mb) : 0;
		if (!kinds || kinds & (kinds - 1))
			continue;
		*ret = counters_kind(mb, kinds);
		return true;
	}
	return false;
}

static int n_alike(const struct proc *const *ranks, int n, int i)
{
	int alike = 0;

	for (int k = 0; k < n; k++)
		alike += k != i && same_place(main_task(ranks[i]), main_task(ranks[k]));
	return alike;
}

enum cycle_verdict counters_cycle_judge(const struct proc *const *ranks, int n, int *ret_rank)
{
	int n_alone = 0, most = 0;

	for (int i = 0; i < n; i++) {
		int alike = n_alike(ranks, n, i);

		if (!known_by_counters(ranks[i]))
			return CYCLE_BY_CALLS;
		if (!alike) {
			n_alone++;
			*ret_rank = i;
		}
		most = alike > most ? alike : most;
	}
	if (n_alone == 1 && most == n - 2 && n > 2)
		return CYCLE_ONE_DIFFERS;
	return most == n - 1 && !runs(main_task(ranks[0])) ? CYCLE_ALL_WAIT : CYCLE_UNDECIDED;
}
