/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_qp.c - see decode_qp.h.
 */
#include "tracers/rdma/decode_qp.h"

#include <errno.h>

#include "schemas/facts.h"

static int qp(const struct fact_qp *f, struct intern *strings, struct event *e)
{
	bool gone = f->state == FACT_QP_STATE_GONE;

	e->kind = EV_QP;
	e->qp.qpn = f->qpn;
	e->qp.device = intern_bytes(strings, f->device, sizeof(f->device));
	e->qp.now.news = gone ? QP_GONE : QP_FOUND;
	e->qp.now.state = gone ? QP_STATE_UNKNOWN : f->state;
	e->qp.now.type = f->type;
	e->qp.now.port = f->port;
	e->qp.now.dest_qpn = f->dest_qpn;
	e->qp.now.by_kernel = true;
	return e->qp.device ? 1 : -EINVAL;
}

static int own(const struct fact_gids *f, struct intern *strings, struct event *e)
{
	if (f->n > FACT_GIDS_MAX)
		return -EINVAL;
	e->kind = EV_GIDS;
	e->qp.device = intern_bytes(strings, f->device, sizeof(f->device));
	e->qp.own.port = f->port;
	e->qp.own.lid = f->lid;
	e->qp.own.n = f->n;
	e->qp.own.gids = (const uint8_t(*)[16])f->gids;
	return e->qp.device ? 1 : -EINVAL;
}

int decode_qp_fact(const struct wire_hdr *h, struct intern *strings, struct event *e)
{
	if (h->kind == FACT_QP && h->size >= sizeof(struct fact_qp))
		return qp((const void *)h, strings, e);
	if (h->kind == FACT_GIDS && h->size >= sizeof(struct fact_gids))
		return own((const void *)h, strings, e);
	return -EINVAL;
}
