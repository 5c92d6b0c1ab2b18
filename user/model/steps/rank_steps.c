/* SPDX-License-Identifier: Apache-2.0
 *
 * rank_steps.c - whose calls an iteration clock counts. The threads of a process that call for a rank each do it in no
 * order among each other, but each in its own: every GPU's calls have a clock there, whatever communicators they are
 * in.
 */
#include <stdlib.h>

#include "model/state.h"

static const struct steps none;

const struct op *op_before(const struct op *op)
{
	const struct op *before = op->prev_in_proc;

	while (before && op->member->proc->by_threads && before->member->device != op->member->device)
		before = before->prev_in_proc;
	return before;
}

static struct rank_clock *rank_clock_find(const struct proc *p, int device)
{
	struct rank_clock *r = p->rank_clocks;

	while (r && r->device != device)
		r = r->next;
	return r;
}

struct rank_clock *rank_clock_get(struct proc *p, int device)
{
	struct rank_clock *r = rank_clock_find(p, device);

	if (r)
		return r;
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->device = device;
	r->next = p->rank_clocks;
	return p->rank_clocks = r;
}

void rank_clocks_free(struct proc *p)
{
	struct rank_clock *next;

	for (struct rank_clock *r = p->rank_clocks; r; r = next) {
		next = r->next;
		free(r);
	}
	p->rank_clocks = NULL;
}

void clock_count(struct proc *p, struct op *op)
{
	struct rank_clock *r = p->by_threads ? rank_clock_get(p, op->member->device) : NULL;

	if (r)
		op->rank_nth = r->n_ops++;
}

uint64_t op_clock_nth(const struct op *op)
{
	return op->member->proc->by_threads ? op->rank_nth : op->nth;
}

static bool all_gone(const struct proc *p)
{
	const struct member *mb = p->members;

	while (mb && mb->gone)
		mb = mb->next_in_proc;
	return !mb;
}

const struct member *rank_above(const struct proc *p, int than)
{
	const struct member *least = NULL;
	bool over = all_gone(p);

	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
		if ((over || !mb->gone) && member_rank(mb) > than && (!least || member_rank(mb) < member_rank(least)))
			least = mb;
	return least;
}

/* NULL: the process has none of it. */
static const struct rank_clock *clock_of_rank(const struct proc *p, int rank)
{
	const struct member *mb = rank_above(p, rank - 1);

	return mb && member_rank(mb) == rank ? rank_clock_find(p, mb->device) : NULL;
}

const struct steps *member_steps(const struct member *mb)
{
	const struct proc *p = mb->proc;
	const struct rank_clock *r = p->by_threads ? rank_clock_find(p, mb->device) : NULL;

	return r ? &r->clock.steps : p->by_threads || !p->steps ? &none : p->steps;
}

const struct steps *rank_steps(const struct proc *p, int rank)
{
	const struct rank_clock *r = p->by_threads ? clock_of_rank(p, rank) : NULL;

	return r ? &r->clock.steps : p->by_threads || !p->steps ? &none : p->steps;
}

const struct steps *rank_steps_last(const struct proc *p, int rank)
{
	const struct rank_clock *r = p->by_threads ? clock_of_rank(p, rank) : NULL;
	const struct iteration_clock *c = r ? &r->clock : p->by_threads ? NULL : &((const struct proc_own *)p)->clock;

	return !c ? &none : c->steps.period_ops ? &c->steps : &c->held;
}

bool rank_step(const struct proc *p, int rank, uint64_t *ret_step)
{
	const struct rank_clock *r = p->by_threads ? clock_of_rank(p, rank) : NULL;

	return step_number(rank_steps(p, rank), r ? r->n_ops : p->n_ops, ret_step);
}
