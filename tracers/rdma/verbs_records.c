/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs_records.c - what the probes on libibverbs and its providers write. Names are those of enum ibv_wc_status,
 * ibv_event_type, ibv_qp_state and rdma_cm_event_type, in words. Only the totals share a struct with their event: what
 * else the probes write becomes instants and changes as well, and a change that was refused is none.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "record.h"
#include "tracers/rdma/verbs.h"

static const char *const statuses[] = {
	"success",
	"local length error",
	"local QP operation error",
	"local EE context error",
	"local protection error",
	"flushed",
	"memory window bind error",
	"bad response",
	"local access error",
	"remote invalid request",
	"remote access error",
	"remote operation error",
	"transport retry exceeded",
	"RNR retry exceeded",
	"local RDD violation",
	"remote invalid RD request",
	"remote aborted",
	"invalid EE context number",
	"invalid EE context state",
	"fatal error",
	"response timeout",
	"general error",
	"tag matching error",
	"tag matching rendezvous incomplete",
};

static const char *const events[] = {
	"CQ error",
	"QP fatal error",
	"QP request error",
	"QP access error",
	"communication established",
	"send queue drained",
	"path migrated",
	"path migration error",
	"device fatal error",
	"port active",
	"port error",
	"LID changed",
	"partition keys changed",
	"SM changed",
	"SRQ error",
	"SRQ limit reached",
	"QP last WQE reached",
	"client reregistered",
	"GIDs changed",
	"WQ fatal error",
};

static const char *const states[] = {
	"reset", "init", "ready to receive", "ready to send", "send queue drained", "send queue error", "error"
};

static const char *const cm_events[] = {
	"address resolved", "address error",    "route resolved",  "route error",
	"connect request",  "connect response", "connect error",   "unreachable",
	"rejected",         "established",      "disconnected",    "device removed",
	"multicast joined", "multicast error",  "address changed", "time wait over",
};

#define NAME(table, i) ((i) < sizeof(table) / sizeof(table[0]) ? table[i] : "unknown")

static const char *status_name(unsigned int status)
{
	return NAME(statuses, status);
}

static const char *event_name(unsigned int type)
{
	return NAME(events, type);
}

static void arg_add(struct event *e, const char *name, const char *text, int64_t number)
{
	if (e->generic.n_args < EVENT_ARGS_MAX)
		e->generic.args[e->generic.n_args++] = (struct event_arg){ name, text, number };
}

static int instant(struct event *e, struct intern *strings, const char *name)
{
	e->kind = EV_INSTANT;
	e->generic.track = "RDMA";
	e->generic.name = intern(strings, name);
	return 1;
}

/* The port's GID of RoCE v2 over IPv4 is ::ffff:a.b.c.d, which people know as the address. */
static const char *gid_text(const uint8_t gid[16], struct intern *strings)
{
	static const uint8_t v4[12] = { [10] = 0xff, [11] = 0xff };
	char text[INET6_ADDRSTRLEN] = "";

	if (!memcmp(gid, v4, sizeof(v4)))
		inet_ntop(AF_INET, gid + 12, text, sizeof(text));
	else
		inet_ntop(AF_INET6, gid, text, sizeof(text));
	return intern(strings, text);
}

static const char *qp_verb(const struct verbs_qp_record *r)
{
	switch (r->change) {
	case VERBS_QP_MADE: return "created";
	case VERBS_QP_GONE: return "destroyed";
	case VERBS_QP_FOUND: return "found";
	default: return r->result ? "refused a change" : "changed";
	}
}

/* For the model. A change that was refused is none. */
static void qp_change(const struct verbs_qp_record *r, struct intern *strings, struct event *e)
{
	bool refused = r->result && r->change == VERBS_QP_CHANGED;

	e->kind = EV_QP;
	e->qp.context = r->context;
	e->qp.qpn = r->qpn;
	e->qp.device = intern_bytes(strings, r->device, sizeof(r->device));
	e->qp.now.change = (enum qp_change)r->change;
	e->qp.now.state = refused ? QP_STATE_UNKNOWN : r->state;
	e->qp.now.type = r->type;
	if (refused)
		return;
	e->qp.now.port = r->port;
	e->qp.now.dest_qpn = r->dest_qpn;
	e->qp.now.has_gid = r->has_gid;
	e->qp.now.dlid = r->dlid;
	memcpy(e->qp.now.gid, r->dgid, sizeof(e->qp.now.gid));
}

static int decode_qp(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct verbs_qp_record *r = (const void *)rec;
	char name[64];

	if (r->state <= VERBS_ERR && r->change == VERBS_QP_CHANGED && !r->result)
		snprintf(name, sizeof(name), "QP %u: %s", r->qpn, states[r->state]);
	else
		snprintf(name, sizeof(name), "QP %u %s", r->qpn, qp_verb(r));
	instant(e, strings, name);
	arg_add(e, "device", intern_bytes(strings, r->device, sizeof(r->device)), 0);
	if (r->dest_qpn)
		arg_add(e, "peer_qp", NULL, r->dest_qpn);
	if (r->has_gid)
		arg_add(e, "peer", gid_text(r->dgid, strings), 0);
	else if (r->dlid)
		arg_add(e, "peer_lid", NULL, r->dlid);
	if (!r->qpn)
		return 1;
	qp_change(r, strings, &e[1]);
	return e[1].qp.device ? 2 : -EINVAL;
}

static int counter(struct event *e, struct intern *strings, uint32_t qpn, const char *what, int64_t value)
{
	char name[64];

	snprintf(name, sizeof(name), "QP %u %s", qpn, what);
	e->kind = EV_COUNTER;
	e->generic.name = intern(strings, name);
	e->generic.value = value;
	return 1;
}

static int totals(const struct verbs_stats *r, struct event *e)
{
	e->kind = EV_QP_TOTALS;
	e->qp.context = r->context;
	e->qp.qpn = r->qpn;
	e->qp.device = "";
	e->qp.totals = (struct qp_totals){
		.n = r->n, .first_status = r->first_status, .from_start = r->from_start, .cut = r->cut
	};
	return r->qpn != 0;
}

static int decode_stats(const struct wire_hdr *rec, struct intern *strings, struct event *out)
{
	const struct verbs_stats *r = (const void *)rec;
	int n = 0;

	if (r->n.posts)
		n += counter(&out[n], strings, r->qpn, "bytes posted", r->n.post_bytes);
	if (r->n.posts && r->n.in_flight_bytes != UINT64_MAX)
		n += counter(&out[n], strings, r->qpn, "bytes in flight", r->n.in_flight_bytes);
	if (r->n.recv_done)
		n += counter(&out[n], strings, r->qpn, "bytes received", r->n.recv_bytes);
	return n + totals(r, &out[n]);
}

static int decode_error(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct verbs_error *r = (const void *)rec;

	instant(e, strings, "completion error");
	arg_add(e, "status", status_name(r->status), 0);
	arg_add(e, "qp", NULL, r->qpn);
	arg_add(e, "vendor_error", NULL, r->vendor_error);
	e[1].kind = EV_QP_ERROR;
	e[1].qp.context = r->context;
	e[1].qp.qpn = r->qpn;
	e[1].qp.device = "";
	e[1].qp.error.status = r->status;
	e[1].qp.error.vendor_error = r->vendor_error;
	e[1].qp.error.name = status_name(r->status);
	return r->qpn ? 2 : 1;
}

static int decode_async(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct verbs_async *r = (const void *)rec;

	instant(e, strings, event_name(r->type));
	arg_add(e, "device", intern_bytes(strings, r->device, sizeof(r->device)), 0);
	if (!r->qpn)
		return 1;
	arg_add(e, "qp", NULL, r->qpn);
	e[1].kind = EV_QP_ASYNC;
	e[1].qp.context = r->context;
	e[1].qp.qpn = r->qpn;
	e[1].qp.device = intern_bytes(strings, r->device, sizeof(r->device));
	e[1].qp.async.type = r->type;
	e[1].qp.async.name = event_name(r->type);
	return e[1].qp.device ? 2 : -EINVAL;
}

static int decode_mr(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct verbs_mr_record *r = (const void *)rec;

	(void)strings;
	e->kind = EV_SPAN;
	e->generic.name = r->failed ? "memory registration failed" : "memory registration";
	e->generic.track = "RDMA";
	e->generic.begin_ns = r->begin_ns;
	arg_add(e, "bytes", NULL, r->bytes);
	return 1;
}

static int decode_cm(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct verbs_cm *r = (const void *)rec;
	char name[64];

	snprintf(name, sizeof(name), "CM: %s", NAME(cm_events, r->type));
	instant(e, strings, name);
	if (r->status)
		arg_add(e, "status", NULL, r->status);
	return 1;
}

static int decode_burst(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct verbs_burst *r = (const void *)rec;

	(void)strings;
	e->kind = EV_QP_BURST;
	e->qp.context = r->context;
	e->qp.qpn = r->qpn;
	e->qp.device = "";
	e->qp.burst.posts = r->posts;
	e->qp.burst.bytes = r->bytes;
	e->qp.burst.first_ns = r->first_ns;
	e->qp.burst.last_ns = r->last_ns;
	return r->qpn != 0;
}

static int decode_not_opened(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct verbs_not_opened *r = (const void *)rec;

	instant(e, strings, "RDMA device cannot be opened");
	arg_add(e, "device", intern_bytes(strings, r->device, sizeof(r->device)), 0);
	arg_add(e, "node", intern_bytes(strings, r->node, sizeof(r->node)), 0);
	return 1;
}

/* A table of functions: for the collector alone, which places probes on them. */
static int decode_table(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	(void)rec;
	(void)strings;
	(void)e;
	return 0;
}

#define VERBS(id) .tracer = WIRE_VERBS, .kind = id
const struct record_kind source_records_verbs[] = {
	{ "verbs_qp", VERBS(VERBS_QP), .size = sizeof(struct verbs_qp_record), .n_events = 2, .decode = decode_qp },
	{ "verbs_stats", VERBS(VERBS_STATS), .size = sizeof(struct verbs_stats), .n_events = 4,
	  .times = { offsetof(struct verbs_stats, n.first_post_ns), offsetof(struct verbs_stats, n.last_post_ns),
		     offsetof(struct verbs_stats, n.last_done_ns) },
	  .decode = decode_stats },
	{ "verbs_error", VERBS(VERBS_ERROR), .size = sizeof(struct verbs_error), .n_events = 2,
	  .decode = decode_error },
	{ "verbs_async", VERBS(VERBS_ASYNC), .size = sizeof(struct verbs_async), .n_events = 2,
	  .decode = decode_async },
	{ "verbs_mr", VERBS(VERBS_MR), .size = sizeof(struct verbs_mr_record),
	  .times = { offsetof(struct verbs_mr_record, begin_ns) }, .decode = decode_mr },
	{ "verbs_cm", VERBS(VERBS_CM), .size = sizeof(struct verbs_cm), .decode = decode_cm },
	{ "verbs_table", VERBS(VERBS_TABLE), .size = sizeof(struct verbs_table_found), .decode = decode_table },
	{ "verbs_unopened", VERBS(VERBS_UNOPENED), .size = sizeof(struct verbs_not_opened),
	  .decode = decode_not_opened },
	{ "verbs_burst", VERBS(VERBS_BURST), .size = sizeof(struct verbs_burst),
	  .times = { offsetof(struct verbs_burst, first_ns), offsetof(struct verbs_burst, last_ns) },
	  .decode = decode_burst },
	{}
};
