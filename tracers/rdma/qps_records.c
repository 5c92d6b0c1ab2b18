/* SPDX-License-Identifier: Apache-2.0
 *
 * qps_records.c - queue pairs as the kernel lists them, and the addresses of the host's own ports. Not one
 * struct: the kernel's list and the probes (verbs_records.c) become one event, in which "gone" is no state but a
 * change.
 */
#include "record.h"
#include "schemas/collector.h"
#include "tracers/rdma/qps_wire.h"

static int qp(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_qp *f = (const void *)rec;
	bool gone = f->state == RECORD_QP_STATE_GONE;

	e->kind = EV_QP;
	e->qp.qpn = f->qpn;
	e->qp.device = intern_bytes(strings, f->device, sizeof(f->device));
	e->qp.now.change = gone ? QP_GONE : QP_FOUND;
	e->qp.now.state = gone ? QP_STATE_UNKNOWN : f->state;
	e->qp.now.type = f->type;
	e->qp.now.port = f->port;
	e->qp.now.dest_qpn = f->dest_qpn;
	e->qp.now.by_kernel = true;
	return e->qp.device ? 1 : -EINVAL;
}

static int own(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_gids *f = (const void *)rec;

	if (f->n > RECORD_GIDS_MAX)
		return -EINVAL;
	e->kind = EV_GIDS;
	e->qp.device = intern_bytes(strings, f->device, sizeof(f->device));
	e->qp.own.port = f->port;
	e->qp.own.lid = f->lid;
	e->qp.own.n = f->n;
	e->qp.own.gids = (const uint8_t(*)[16])f->gids;
	return e->qp.device ? 1 : -EINVAL;
}

#define COLLECTOR(id) .tracer = WIRE_COLLECTOR, .kind = id
const struct record_kind source_records_qps[] = { { "qp", COLLECTOR(RECORD_QP), .size = sizeof(struct record_qp),
						    .decode = qp },
						  { "gids", COLLECTOR(RECORD_GIDS), .size = sizeof(struct record_gids),
						    .kept_by = offsetof(struct record_gids, number), .decode = own },
						  {} };
