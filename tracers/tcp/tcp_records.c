/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_records.c - TCP connections of the ranks: who they are, how they stand, what went wrong and when.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "record.h"
#include "schemas/collector.h"
#include "tracers/tcp/tcp.h"

/* --- by probes: what went wrong, an instant of the process that has the connection --- */

static const char *const states[] = { "unknown",   "established", "connecting", "accepting",          "closing",
				      "closing",   "closing",     "closed",     "closed by the peer", "closing",
				      "listening", "closing" };

static const char *name_of(const struct tcp_record *r)
{
	switch (r->hdr.kind) {
	case TCP_SENT_AGAIN: return "TCP sent again";
	case TCP_RESET_CAME: return "TCP reset received";
	case TCP_RESET_WENT: return "TCP reset sent";
	default: return r->state == 2 ? "TCP connect failed" : "TCP connection broken";
	}
}

static const char *connection_text(const struct tcp_record *r, struct intern *strings)
{
	char local[INET6_ADDRSTRLEN] = "?", remote[INET6_ADDRSTRLEN] = "?", text[2 * INET6_ADDRSTRLEN + 40];

	inet_ntop(r->family == AF_INET6 ? AF_INET6 : AF_INET, r->local, local, sizeof(local));
	inet_ntop(r->family == AF_INET6 ? AF_INET6 : AF_INET, r->remote, remote, sizeof(remote));
	snprintf(text, sizeof(text), "%s port %u to %s port %u", local, r->local_port, remote, r->remote_port);
	return intern(strings, text);
}

static void arg_add(struct event *e, const char *name, const char *text, int64_t number)
{
	if (e->generic.n_args < EVENT_ARGS_MAX)
		e->generic.args[e->generic.n_args++] = (struct event_arg){ name, text, number };
}

static int trouble(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct tcp_record *r = (const void *)rec;

	e->kind = EV_INSTANT;
	e->generic.track = "TCP";
	e->generic.name = intern(strings, name_of(r));
	arg_add(e, "connection", connection_text(r, strings), 0);
	if (rec->kind == TCP_SENT_AGAIN)
		arg_add(e, "segments", NULL, r->n);
	arg_add(e, "state", r->state < sizeof(states) / sizeof(states[0]) ? states[r->state] : states[0], 0);
	if (r->error)
		arg_add(e, "error", intern(strings, strerror(r->error)), 0);
	return 1;
}

/* --- by sock_diag --- */

static int id_texts(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const uint16_t lens[] = { e->tcp.id.local_len, e->tcp.id.remote_len, e->tcp.id.netdev_len };
	const char **const texts[] = { &e->tcp.local, &e->tcp.remote, &e->tcp.netdev };

	return record_texts(rec, sizeof(struct record_tcp), 3, lens, texts, strings);
}

static int sample_counters(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_tcp_sample *r = (const void *)rec;

	(void)strings;
	if (r->body.n_counters * sizeof(r->counters[0]) > rec->size - sizeof(*r))
		return -EINVAL;
	if (e->tcp.sample.n_counters > TCP_COUNTERS)
		e->tcp.sample.n_counters = TCP_COUNTERS;
	e->tcp.counters = r->counters;
	return 1;
}

#define PROBED(id) .tracer = WIRE_TCP, .kind = id, .size = sizeof(struct tcp_record), .decode = trouble
#define SAMPLED(id, event, member) \
	RECORD_AS_EVENT(event, member), .tracer = WIRE_COLLECTOR, .kind = id, .kept_by = sizeof(struct wire_hdr)
const struct record_kind source_records_tcp[] = { { "tcp_sent_again", PROBED(TCP_SENT_AGAIN) },
						  { "tcp_ended", PROBED(TCP_ENDED) },
						  { "tcp_reset_came", PROBED(TCP_RESET_CAME) },
						  { "tcp_reset_went", PROBED(TCP_RESET_WENT) },
						  { "tcp", SAMPLED(RECORD_TCP, EV_TCP, tcp.id), .decode = id_texts },
						  { "tcp_sample", SAMPLED(RECORD_TCP_SAMPLE, EV_TCP_SAMPLE, tcp.sample),
						    .times = { offsetof(struct record_tcp_sample, body.taken_ns) },
						    .decode = sample_counters },
						  {} };
