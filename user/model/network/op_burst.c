/* SPDX-License-Identifier: Apache-2.0
 *
 * op_burst.c - which operation a rank's RDMA posts were for. Said only where it can be no other: an operation that was
 * enqueued before the first of them, and no second one that may have run between first and last. A host that runs ahead
 * has many that may have. NCCL makes queue pairs for each communicator; once it is known which is this one's,
 * operations of other communicators do not count.
 */
#include "base/larger.h"
#include "model/state.h"

#define LOOK_BACK 256 /* operations of a process */

struct burst {
	uint64_t first_ns, last_ns, comm;
}; /* comm: 0 any */

static bool may_have_posted(const struct op *op, const struct burst *b)
{
	return !op->captured && op->enqueue_ns && op->enqueue_ns <= b->last_ns &&
	       (!op->end_ns || op->end_ns >= b->first_ns) && (!b->comm || op->member->addr == b->comm);
}

/* NULL: none, or not only one. Whether it was all of them is then known of none. */
static struct op *op_of(const struct proc *p, const struct burst *b)
{
	struct op *found[LOOK_BACK], *op = p->last_op;
	int n = 0;

	for (int i = 0; op && i < LOOK_BACK; i++, op = op->prev_in_proc)
		if (may_have_posted(op, b))
			found[n++] = op;
	if (n == 1 && found[0]->enqueue_ns <= b->first_ns)
		return found[0];
	while (n)
		found[--n]->net.shared = true;
	return NULL;
}

static uint64_t comm_of(const struct qp *q)
{
	return q && q->n_of_comm >= QP_OF_COMM && q->n_of_comm != QP_OF_MANY ? q->comm : 0;
}

/* It could be no other operation's, whatever communicator that is of. */
static void comm_learn(struct qp *q, const struct op *op)
{
	if (!q || q->n_of_comm == QP_OF_MANY)
		return;
	q->n_of_comm = q->n_of_comm && q->comm != op->member->addr ? QP_OF_MANY : q->n_of_comm + 1;
	q->comm = op->member->addr;
}

int op_burst_apply(struct model *m, const struct event *e)
{
	const struct proc *p = model_proc(m, event_proc(e));
	struct qp *q = p ? (struct qp *)qp_find(m, p, e->qp.context, e->qp.qpn) : NULL;
	struct burst b = { .first_ns = e->qp.burst.first_ns, .last_ns = e->qp.burst.last_ns, .comm = comm_of(q) };
	struct op *op = p ? op_of(p, &b) : NULL;
	struct op_net *net = op ? &op->net : NULL;

	if (!net)
		return 0;
	if (!b.comm)
		comm_learn(q, op);
	net->first_ns = net->posts ? smaller(net->first_ns, b.first_ns) : b.first_ns;
	net->last_ns = larger(net->last_ns, b.last_ns);
	net->done_ns = e->ts_ns;
	net->posts += e->qp.burst.posts;
	net->bytes += e->qp.burst.bytes;
	return 0;
}
