/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_others.c - whose traffic is on a host's netdev: the ranks' TCP, or others'. Over all looks that are kept, since a job sends in bursts.
 */
#include <string.h>

#include "detect/tcp_pairs.h"

#define HEADERS_BYTES 66 /* of a segment: Ethernet, IPv4, TCP with timestamps */
#define CHATTER_PER_S 65536 /* bytes: what hosts say to each other all the time fills no link of 0.1 Gb/s and more */

struct sums { uint64_t sent, came, own_sent, own_came; double seconds; };

static uint64_t more(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void sums_add(struct sums *s, const struct tcp_connection *c)
{
	uint64_t kept = c->n_looks < TCP_LOOKS_KEPT ? c->n_looks : TCP_LOOKS_KEPT;
	const struct tcp_look *l = tcp_look_at(c, 0), *b = kept > 1 ? tcp_look_at(c, kept - 1) : NULL;
	double seconds;

	if (!b)
		return;
	seconds = (l->taken_ns - b->taken_ns) * 1e-9;
	s->seconds = seconds > s->seconds ? seconds : s->seconds;
	s->sent = more(s->sent, tcp_grown(l, b, TCP_NETDEV_SENT));
	s->came = more(s->came, tcp_grown(l, b, TCP_NETDEV_RECEIVED));
	s->own_sent += tcp_grown(l, b, TCP_BYTES_SENT) + HEADERS_BYTES * tcp_grown(l, b, TCP_SEGMENTS_SENT);
	s->own_came += tcp_grown(l, b, TCP_BYTES_RECEIVED) + HEADERS_BYTES * tcp_grown(l, b, TCP_SEGMENTS_RECEIVED);
}

struct tcp_traffic tcp_traffic_of(const struct model *m, const char *address)
{
	struct sums s = { 0 };
	double all, others;

	for (uint32_t i = 0; i < m->tcp.n; i++)
		if (m->tcp.at[i] && !strcmp(m->tcp.at[i]->local, address))
			sums_add(&s, m->tcp.at[i]);
	all = (double)s.sent + s.came;
	others = all - s.own_sent - s.own_came;
	if (!all || s.seconds <= 0)
		return (struct tcp_traffic){ .others = -1 };
	return (struct tcp_traffic){
		.others = others > CHATTER_PER_S * s.seconds ? others / all : 0,
		.comes_per_s = s.came / s.seconds,
		.others_come_per_s = s.came > s.own_came ? (s.came - s.own_came) / s.seconds : 0,
	};
}
