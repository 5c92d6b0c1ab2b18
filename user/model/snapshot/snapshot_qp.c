/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot_qp.c - queue pairs of a snapshot. The addresses of the host's ports are records that are kept as they came.
 */
#include <errno.h>
#include <string.h>

#include "model/snapshot/snapshot_private.h"

_Static_assert(sizeof(struct qp_counts) == sizeof(((struct snapshot_qp *)0)->totals), "the same, in one order");

static void one(struct snapshot_writer *r, const struct qp *q)
{
	const struct qp_totals *t = &q->totals;
	const char *texts[] = { q->device, q->error_name, q->async_name };
	struct snapshot_qp b = {
		.context = q->context,
		.first_ns = q->first_ns,
		.state_ns = q->state_ns,
		.gone_ns = q->gone_ns,
		.totals_ns = q->totals_ns,
		.error_ns = q->error_ns,
		.async_ns = q->async_ns,
		.qpn = q->qpn,
		.dest_qpn = q->dest_qpn,
		.error_status = q->error_status,
		.first_status = t->first_status,
		.dlid = q->dlid,
		.state = q->state,
		.type = q->type,
		.port = q->port,
		.gone = q->gone,
		.has_gid = q->has_gid,
		.closing = q->closing,
		.failed = q->failed,
		.from_start = t->from_start,
		.cut = t->cut,
	};

	memcpy(b.totals, &t->n, sizeof(b.totals));
	memcpy(b.gid, q->gid, sizeof(b.gid));
	emit_body(r, q->proc, 0, SNAPSHOT_QP, &b, sizeof(b), texts, 3);
}

/* The oldest first: each is put in front. */
static void from(struct snapshot_writer *r, const struct qp *q)
{
	const struct qp *stack[64];
	size_t n = 0;

	for (; q && n < 64; q = q->next)
		stack[n++] = q;
	if (q)
		from(r, q);
	while (n--)
		if (proc_own(stack[n]->proc)->hashed)
			one(r, stack[n]);
}

void emit_qps(struct snapshot_writer *r)
{
	from(r, r->m->qps.newest);
}

int take_qp(struct model *m, const struct event *e)
{
	const struct snapshot_qp *b = e->snapshot.body;
	struct event made = { .kind = EV_QP, .tgid = e->tgid, .ts_ns = b->first_ns };
	struct qp *q;
	int err;

	if (!b->qpn)
		return -EINVAL;
	made.qp.context = b->context;
	made.qp.qpn = b->qpn;
	made.qp.device = e->snapshot.text[0];
	made.qp.now.change = QP_MADE;
	made.qp.now.state = b->state;
	err = qp_apply(m, &made);
	q = m->qps.newest;
	if (err || !q || q->qpn != b->qpn || q->proc->tgid != e->tgid)
		return err;
	q->dest_qpn = b->dest_qpn;
	q->type = b->type;
	q->port = b->port;
	q->dlid = b->dlid;
	q->has_gid = b->has_gid;
	q->closing = b->closing;
	q->failed = b->failed;
	memcpy(q->gid, b->gid, sizeof(q->gid));
	q->state_ns = b->state_ns;
	q->gone = b->gone;
	q->gone_ns = b->gone_ns;
	q->totals_ns = b->totals_ns;
	q->error_ns = b->error_ns;
	q->error_status = b->error_status;
	q->error_name = b->error_ns ? e->snapshot.text[1] : NULL;
	q->async_ns = b->async_ns;
	q->async_name = b->async_ns ? e->snapshot.text[2] : NULL;
	memcpy(&q->totals.n, b->totals, sizeof(q->totals.n));
	q->totals.first_status = b->first_status;
	q->totals.from_start = b->from_start;
	q->totals.cut = b->cut;
	return 0;
}
