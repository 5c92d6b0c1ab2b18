/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_others.c - whose traffic is on a host's netdev: the ranks' TCP, or others'. Over all samples that are kept, since
 * a job sends in bursts.
 */
#include <string.h>

#include "detect/network/tcp_pairs.h"

#define HEADERS_BYTES 66 /* of a segment: Ethernet, IPv4, TCP with timestamps */

static uint64_t more(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static struct tcp_netdev *netdev_of(const struct tcp_netdevs *n, const char *address)
{
	for (int i = 0; i < n->n; i++)
		if (n->at[i].address == address || !strcmp(n->at[i].address, address))
			return (struct tcp_netdev *)&n->at[i];
	return NULL;
}

static struct tcp_netdev *netdev_get(struct tcp_netdevs *n, const char *address)
{
	struct tcp_netdev *d = netdev_of(n, address);

	if (d || n->n == TCP_ADDRESSES_MAX)
		return d;
	n->at[n->n] = (struct tcp_netdev){ .address = address };
	return &n->at[n->n++];
}

static void connection_add(struct tcp_netdev *d, const struct tcp_connection *c)
{
	uint64_t kept = c->n_samples < TCP_SAMPLES_KEPT ? c->n_samples : TCP_SAMPLES_KEPT;
	const struct tcp_sample *l = tcp_sample_at(c, 0), *b = kept > 1 ? tcp_sample_at(c, kept - 1) : NULL;
	double seconds;

	if (!b)
		return;
	seconds = (l->now.taken_ns - b->now.taken_ns) * 1e-9;
	d->seconds = seconds > d->seconds ? seconds : d->seconds;
	d->sent = more(d->sent, tcp_grown(l, b, TCP_NETDEV_SENT));
	d->came = more(d->came, tcp_grown(l, b, TCP_NETDEV_RECEIVED));
	d->own_sent += tcp_grown(l, b, TCP_BYTES_SENT) + HEADERS_BYTES * tcp_grown(l, b, TCP_SEGMENTS_SENT);
	d->own_came += tcp_grown(l, b, TCP_BYTES_RECEIVED) + HEADERS_BYTES * tcp_grown(l, b, TCP_SEGMENTS_RECEIVED);
}

void tcp_netdevs_take(struct tcp_netdevs *n, const struct model *m)
{
	n->n = 0;
	for (uint32_t i = 0; i < m->tcp.n; i++) {
		struct tcp_netdev *d = m->tcp.at[i] ? netdev_get(n, m->tcp.at[i]->local) : NULL;

		if (d)
			connection_add(d, m->tcp.at[i]);
	}
}

struct tcp_traffic tcp_traffic_of(const struct tcp_netdevs *n, const char *address)
{
	const struct tcp_netdev *d = netdev_of(n, address);
	double all = d ? (double)d->sent + d->came : 0, others = d ? all - d->own_sent - d->own_came : 0;

	if (!all || d->seconds <= 0) /* lint: without d, all is 0 */
		return (struct tcp_traffic){ .others = -1 };
	return (struct tcp_traffic){
		.others = others > TCP_CHATTER_PER_S * d->seconds ? others / all : 0,
		.comes_per_s = d->came / d->seconds,
		.others_come_per_s = d->came > d->own_came ? (d->came - d->own_came) / d->seconds : 0,
	};
}
