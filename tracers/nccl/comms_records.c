/* SPDX-License-Identifier: Apache-2.0
 *
 * comms_records.c - what is read of NCCL's own state in the ranks' memory: communicators, their counters, the progress
 * of their transfers.
 */
#include <string.h>

#include "record.h"
#include "schemas/collector.h"
#include "tracers/nccl/proxy_wire.h"

static int decode_comm_sample(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_comm_sample *f = (const void *)rec;

	(void)strings;
	e->kind = EV_COMM_SAMPLE;
	e->comm_sample.addr = f->comm;
	e->comm_sample.hash = f->hash;
	e->comm_sample.rank = f->rank;
	e->comm_sample.nranks = f->nranks;
	e->comm_sample.device = f->device;
	e->comm_sample.counters_valid = f->n_counters >= OP_KINDS_COUNTED && f->n_counters <= COMM_SAMPLE_COUNTERS;
	for (uint32_t i = 0; i < f->n_counters && i < COMM_SAMPLE_COUNTERS; i++)
		e->comm_sample.counters_sum += f->counters[i];
	memcpy(e->comm_sample.counters, f->counters, sizeof(e->comm_sample.counters));
	e->comm_sample.async_result = f->known & COMM_SAMPLE_ASYNC_RESULT ? f->async_result : 0;
	e->comm_sample.init_state = f->known & COMM_SAMPLE_INIT_STATE ? f->init_state : 0;
	e->comm_sample.aborted = f->known & COMM_SAMPLE_ABORT && f->abort;
	return f->hash && f->rank >= 0 && f->rank < f->nranks ? 1 : -EINVAL;
}

static int decode_proxy(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_proxy *f = (const void *)rec;

	(void)strings;
	e->kind = EV_PROXY;
	e->proxy.addr = f->comm;
	e->proxy.is_begin = f->flags & PROXY_SAMPLE;
	e->proxy.moving = f->flags & PROXY_MOVING;
	e->proxy.n = f->n;
	e->proxy.thread = f->thread;
	e->proxy.part = (struct proxy_part){
		.op_count = f->op_count,
		.base = f->base,
		.posted = f->posted,
		.received = f->received,
		.flushed = f->flushed,
		.transmitted = f->transmitted,
		.done = f->done,
		.nsteps = f->nsteps,
		.channel = f->channel,
		.peer = f->peer,
		.queued = f->queued,
		.is_send = f->flags & PROXY_SEND,
		.transport = f->transport,
		.coll = f->coll,
		.algorithm = f->algorithm,
		.protocol = f->protocol,
		.state = f->state,
	};
	return e->proxy.is_begin || (f->nsteps >= 0 && f->channel >= 0 && f->peer >= 0) ? 1 : -EINVAL;
}

static int decode_vanished(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_comm_vanished *f = (const void *)rec;

	(void)strings;
	e->kind = EV_COMM_VANISHED;
	e->comm_seen.addr = f->comm;
	e->comm_seen.hash = f->hash;
	return f->hash ? 1 : -EINVAL;
}

static int decode_scan(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	(void)rec;
	(void)strings;
	e->kind = EV_COMM_SCAN;
	return 1;
}

#define COLLECTOR(id) .tracer = WIRE_COLLECTOR, .kind = id
const struct record_kind source_records_comms[] = {
	{ "comm_sample", COLLECTOR(RECORD_COMM_SAMPLE), .size = sizeof(struct record_comm_sample), .in_autopsy = true,
	  .decode = decode_comm_sample },
	{ "proxy", COLLECTOR(RECORD_PROXY), .size = sizeof(struct record_proxy), .in_autopsy = true,
	  .decode = decode_proxy },
	{ "comm_vanished", COLLECTOR(RECORD_COMM_VANISHED), .size = sizeof(struct record_comm_vanished),
	  .decode = decode_vanished },
	{ "comm_scan", COLLECTOR(RECORD_COMM_SCAN), .size = sizeof(struct record_comm_scan), .in_autopsy = true,
	  .decode = decode_scan },
	{}
};
