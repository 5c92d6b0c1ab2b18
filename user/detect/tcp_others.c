/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_others.c - whose traffic is on a host's netdev: the ranks' TCP, or others'. Over all looks that are kept, since a job sends in bursts.
 */
#include <string.h>

#include "detect/tcp_pairs.h"

#define HEADERS_BYTES 66 /* of a segment: Ethernet, IPv4, TCP with timestamps */
#define CHATTER_PER_S 65536 /* bytes: what hosts say to each other all the time fills no link of 0.1 Gb/s and more */

struct traffic { uint64_t all, own; double seconds; };

static void traffic_add(struct traffic *t, const struct tcp_connection *c)
{
	uint64_t kept = c->n_looks < TCP_LOOKS_KEPT ? c->n_looks : TCP_LOOKS_KEPT, device;
	const struct tcp_look *l = tcp_look_at(c, 0), *b = kept > 1 ? tcp_look_at(c, kept - 1) : NULL;
	double seconds;

	if (!b)
		return;
	device = tcp_grown(l, b, TCP_NETDEV_SENT) + tcp_grown(l, b, TCP_NETDEV_RECEIVED);
	seconds = (l->taken_ns - b->taken_ns) * 1e-9;
	t->all = device > t->all ? device : t->all;
	t->seconds = seconds > t->seconds ? seconds : t->seconds;
	t->own += tcp_grown(l, b, TCP_BYTES_SENT) + tcp_grown(l, b, TCP_BYTES_RECEIVED) +
		  HEADERS_BYTES * (tcp_grown(l, b, TCP_SEGMENTS_SENT) + tcp_grown(l, b, TCP_SEGMENTS_RECEIVED));
}

double tcp_share_of_others(const struct model *m, const char *address)
{
	struct traffic t = { 0 };

	for (uint32_t i = 0; i < m->tcp.n; i++)
		if (m->tcp.at[i] && !strcmp(m->tcp.at[i]->local, address))
			traffic_add(&t, m->tcp.at[i]);
	if (!t.all)
		return -1;
	return t.own < t.all && t.all - t.own > CHATTER_PER_S * t.seconds ? 1 - (double)t.own / t.all : 0;
}
