/* SPDX-License-Identifier: Apache-2.0
 *
 * op_burst.c - which operation a rank's RDMA posts were for. Told only where it can be no other: an operation that was enqueued before
 * the first of them, and no second one that may have run between first and last. A host that runs ahead has many that may have.
 */
#include "model/state.h"

#define LOOK_BACK 256 /* operations of a process */

static bool may_have_posted(const struct op *op, uint64_t first_ns, uint64_t last_ns)
{
	return !op->captured && op->enqueue_ns && op->enqueue_ns <= last_ns && (!op->end_ns || op->end_ns >= first_ns);
}

/* NULL: none, or not only one. */
static struct op *op_of(const struct proc *p, uint64_t first_ns, uint64_t last_ns)
{
	struct op *only = NULL, *op = p->last_op;
	int n = 0;

	for (int i = 0; op && i < LOOK_BACK && n < 2; i++, op = op->prev_in_proc)
		if (may_have_posted(op, first_ns, last_ns)) {
			only = op;
			n++;
		}
	return n == 1 && only->enqueue_ns <= first_ns ? only : NULL;
}

int op_burst_apply(struct model *m, const struct event *e)
{
	const struct proc *p = model_proc(m, e->tgid);
	struct op *op = p ? op_of(p, e->qp.burst.first_ns, e->qp.burst.last_ns) : NULL;
	struct op_net *net = op ? &op->net : NULL;

	if (!net)
		return 0;
	net->first_ns = net->posts && net->first_ns < e->qp.burst.first_ns ? net->first_ns : e->qp.burst.first_ns;
	net->last_ns = net->last_ns > e->qp.burst.last_ns ? net->last_ns : e->qp.burst.last_ns;
	net->done_ns = e->ts_ns;
	net->posts += e->qp.burst.posts;
	net->bytes += e->qp.burst.bytes;
	return 0;
}
