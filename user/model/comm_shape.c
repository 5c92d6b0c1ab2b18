/* SPDX-License-Identifier: Apache-2.0
 *
 * comm_shape.c - shape and use of a communicator, from its members and what they called, and from these what it is for
 * (parallel.h). Judged at ticks.
 */
#include "model/state.h"

#define SHAPES_MAX 16 /* communicators of one process */

static void calls_count(const struct member *mb, struct comm_shape *s)
{
	for (int kind = 0; kind < OP_KIND_MAX; kind++)
		*(op_kind_counted(kind) ? &s->collectives
		  : op_kind_p2p(kind)   ? &s->transfers
					: &s->others) += mb->n_called[kind];
	s->all_reduces += mb->n_called[OP_ALLREDUCE];
	s->reduce_scatters += mb->n_called[OP_REDUCESCATTER];
}

/* Both neighbours get something of it; *ret_others: somebody else does. */
static bool sends_both_ways(const struct member *mb, bool *ret_others)
{
	bool before = false, behind = false;

	for (int peer = 0; peer < mb->n_p2p; peer++) {
		if (!mb->p2p[peer].next[0])
			continue;
		before |= peer == mb->rank - 1;
		behind |= peer == mb->rank + 1;
		*ret_others |= peer != mb->rank - 1 && peer != mb->rank + 1;
	}
	return before && behind;
}

/* From the ranks that are seen; 0: not one stride. */
static int stride_of(const struct comm *c)
{
	int stride = 0, last = -1, step;

	for (int r = 0; r < c->nranks; r++) {
		if (comm_global_rank(c, r) < 0)
			continue;
		if (last >= 0) {
			step = comm_global_rank(c, r) - comm_global_rank(c, last);
			if (step <= 0 || step % (r - last) || (stride && step / (r - last) != stride))
				return 0;
			stride = step / (r - last);
		}
		last = r;
	}
	return stride;
}

static struct comm_shape shape_of(const struct comm *c)
{
	struct comm_shape s = { .n = c->nranks, .stride = stride_of(c), .one_host = c->n_seen == c->nranks };
	bool others = false, both_ways = false;

	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb)) {
		calls_count(mb, &s);
		both_ways |= sends_both_ways(mb, &others);
		s.one_host &= mb->proc->node == c->members->proc->node;
	}
	s.both_ways = both_ways && !others;
	return s;
}

static enum parallelism comm_parallelism(const struct comm *c)
{
	const struct proc *p = c->members->proc;
	struct comm_shape shapes[SHAPES_MAX];
	int n = 0, which = -1;

	if (p->world_size < 2 || p->shared)
		return PARALLEL_UNKNOWN;
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb)) {
		if (mb->gone || mb->comm->nranks < 2 || !mb->comm->n_called)
			continue;
		if (n == SHAPES_MAX)
			return PARALLEL_UNKNOWN;
		which = mb->comm == c ? n : which;
		shapes[n++] = shape_of(mb->comm);
	}
	return which >= 0 ? parallelism_of(shapes, n, which, p->world_size) : PARALLEL_UNKNOWN;
}

/* Judged again when twice as much was called: what a job is does not change often. Not what has no known size: who
 * calls with another pointer each time makes a communicator each time. */
void parallel_tick(struct model *m)
{
	for (struct comm *c = m->comms; c; c = c->next) {
		struct comm_own *own = comm_own(c);

		if (c->nranks < 2 || !c->members || !c->n_called || c->n_called < 2 * own->n_judged)
			continue;
		own->n_judged = c->n_called;
		c->parallelism = parallelism_of_group(c->process_group);
		if (!c->parallelism)
			c->parallelism = comm_parallelism(c);
	}
}
