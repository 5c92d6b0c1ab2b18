/* SPDX-License-Identifier: Apache-2.0
 *
 * write_network.c - ports of RDMA devices, and TCP connections summed up by rank: a series for each would have no
 * bound.
 */
#include "metrics/write.h"

#include <stdio.h>

#define BYTES_PER_MBIT (1e6 / 8)

struct port_name {
	const char *device, *netdev;
	char number[16];
};

static bool is_up(const struct port_sample *s)
{
	return s->now.state == PORT_STATE_ACTIVE && !port_is(s, PORT_GONE) && !port_is(s, PORT_SILENT);
}

static void counter_write(struct page *p, const struct port_name *n, enum port_counter c, uint64_t value)
{
	if (value == PORT_NOT_COUNTED || c == PORT_SENT_PACKETS || c == PORT_RECEIVED_PACKETS)
		return;
	if (c == PORT_SENT_BYTES)
		page_put(p, METRIC_PORT_SENT, (double)value, n->device, n->number, n->netdev);
	else if (c == PORT_RECEIVED_BYTES)
		page_put(p, METRIC_PORT_RECEIVED, (double)value, n->device, n->number, n->netdev);
	else
		page_put(p, METRIC_PORT_EVENTS, (double)value, n->device, n->number, n->netdev, port_counter_name(c));
}

static void port_write(struct page *p, const struct port *port)
{
	const struct port_sample *s = port_sample(port, 0);
	struct port_name n = { .device = port->device, .netdev = port->netdev };

	if (!s)
		return;
	snprintf(n.number, sizeof(n.number), "%u", port->id.number);
	page_put(p, METRIC_PORT_ACTIVE, is_up(s), n.device, n.number, n.netdev);
	if (s->now.rate_mbps && s->now.rate_mbps != PORT_NO_VALUE)
		page_put(p, METRIC_PORT_RATE, s->now.rate_mbps * BYTES_PER_MBIT, n.device, n.number, n.netdev);
	for (enum port_counter c = 0; c < PORT_COUNTERS; c++)
		counter_write(p, &n, c, s->counters[c]);
}

static void tcp_write(struct page *p, const struct tally_rank *r)
{
	const struct tally_tcp *t = &r->tcp;
	const char *job = r->job->shown;
	char rank[16];

	if (!t->connections && !t->sent && !t->received)
		return;
	snprintf(rank, sizeof(rank), "%d", r->rank);
	page_put(p, METRIC_TCP_CONNECTIONS, t->connections, job, rank);
	page_put(p, METRIC_TCP_SENT, (double)t->sent, job, rank);
	page_put(p, METRIC_TCP_RECEIVED, (double)t->received, job, rank);
	page_put(p, METRIC_TCP_RETRANSMITTED, (double)t->retransmitted, job, rank);
	page_put(p, METRIC_TCP_QUEUED, (double)t->send_queue, job, rank, "send");
	page_put(p, METRIC_TCP_QUEUED, (double)t->receive_queue, job, rank, "receive");
}

void write_network(struct page *p, const struct tally *t, const struct model *m)
{
	for (const struct port *port = model_next_port(m, NULL); port; port = model_next_port(m, port))
		port_write(p, port);
	for (const struct tally_rank *r = tally_next(t, NULL); r; r = tally_next(t, r))
		tcp_write(p, r);
}
