/* SPDX-License-Identifier: Apache-2.0
 *
 * comms_records.c - what is read of NCCL's own state in the ranks' memory: communicators, their counters, the progress
 * of their transfers.
 */
#include "record.h"
#include "schemas/collector.h"

static int sample_check(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	struct comm_sample *s = &e->comm_sample;

	(void)rec;
	(void)strings;
	s->async_result = s->known & COMM_SAMPLE_ASYNC_RESULT ? s->async_result : 0;
	s->init_state = s->known & COMM_SAMPLE_INIT_STATE ? s->init_state : 0;
	s->abort = s->known & COMM_SAMPLE_ABORT ? s->abort : 0;
	return s->hash && s->rank >= 0 && s->nranks > 0 && ranks_possible(s->rank, s->nranks) ? 1 : -EINVAL;
}

static int proxy_check(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct proxy_part *p = &e->proxy;

	(void)rec;
	(void)strings;
	if (!ranks_possible(p->peer, 0))
		return -EINVAL;
	return p->flags & PROXY_SAMPLE || (p->nsteps >= 0 && p->channel >= 0 && p->peer >= 0) ? 1 : -EINVAL;
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

/* An agent of before decision 831 says handles. */
static int reported_check(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	struct reported_call *r = &e->reported;
	bool is_p2p = r->kind == OP_SEND || r->kind == OP_RECV;

	(void)rec;
	(void)strings;
	r->redop = redop_decode(r->redop);
	if (r->what < REPORTED_BEGIN || r->what > REPORTED_END || r->seq > 1ull << 62)
		return -EINVAL;
	if (r->what != REPORTED_NUMBER && r->what != REPORTED_OP)
		return 1;
	return r->kind >= 0 && r->kind < OP_KIND_MAX && is_p2p == (r->peer >= 0) && ranks_possible(r->peer, 0)
		       ? 1
		       : -EINVAL;
}

#define COLLECTOR(id) .tracer = WIRE_COLLECTOR, .kind = id
const struct record_kind source_records_comms[] = {
	{ "comm_sample", COLLECTOR(RECORD_COMM_SAMPLE), RECORD_AS_EVENT(EV_COMM_SAMPLE, comm_sample),
	  .in_autopsy = true, .decode = sample_check },
	{ "proxy", COLLECTOR(RECORD_PROXY), RECORD_AS_EVENT(EV_PROXY, proxy), .in_autopsy = true,
	  .decode = proxy_check },
	{ "reported", COLLECTOR(RECORD_REPORTED), RECORD_AS_EVENT(EV_REPORTED, reported), .decode = reported_check },
	{ "comm_vanished", COLLECTOR(RECORD_COMM_VANISHED), .size = sizeof(struct record_comm_vanished),
	  .decode = decode_vanished },
	{ "comm_scan", COLLECTOR(RECORD_COMM_SCAN), .size = sizeof(struct record_comm_scan), .in_autopsy = true,
	  .event = EV_COMM_SCAN },
	{}
};
