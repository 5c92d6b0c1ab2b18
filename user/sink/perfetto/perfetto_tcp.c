/* SPDX-License-Identifier: Apache-2.0
 *
 * perfetto_tcp.c - what goes over TCP from one rank to another, all of their connections together: bytes a second,
 * segments sent again, the longest round trip. A peer that is not watched here is its address.
 */
#include <stdio.h>
#include <string.h>

#include "sink/perfetto/perfetto.h"

#define INDEX_FIRST \
	0x80000000u /* among the machine's parts, behind GPUs and ports: a hash of the pair, which stays when \
		       connections go */

static bool is_pair(const struct tcp_connection *a, const struct tcp_connection *b)
{
	if (a->proc != b->proc || !a->peer != !b->peer)
		return false;
	return a->peer ? a->peer->proc == b->peer->proc : !strcmp(a->remote, b->remote);
}

static void rank_name(char *to, size_t size, const struct model *m, uint64_t proc)
{
	const struct proc *p = model_proc(m, proc);

	if (p && sink_rank(p) >= 0)
		snprintf(to, size, "rank %d", sink_rank(p));
	else
		snprintf(to, size, "pid %u", (uint32_t)proc);
}

static uint32_t pair_index(const struct tcp_connection *c)
{
	uint64_t h = c->proc * 0x9e3779b97f4a7c15ull;

	for (const char *s = c->peer ? "" : c->remote; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3ull;
	h = (h ^ (c->peer ? c->peer->proc : 0)) * 0x9e3779b97f4a7c15ull;
	return INDEX_FIRST | (uint32_t)(h >> 33);
}

static void pair_draw(struct perfetto_sink *s, const struct model *m, const struct tcp_connection *first)
{
	double sent = 0, again = 0;
	char from[32], to[64], group[128];
	uint64_t rtt = 0;

	for (uint32_t i = first->index; i < m->tcp.n; i++) {
		const struct tcp_connection *c = m->tcp.at[i];
		const struct tcp_sample *now = c && is_pair(c, first) ? tcp_sample_at(c, 0) : NULL,
					*before = now ? tcp_sample_at(c, 1) : NULL;
		double seconds = before ? (now->now.taken_ns - before->now.taken_ns) * 1e-9 : 0;

		if (seconds <= 0)
			continue;
		sent += tcp_grown(now, before, TCP_BYTES_ACKED) / seconds;
		again += tcp_grown(now, before, TCP_RETRANSMITS) / seconds;
		rtt = tcp_value(now, TCP_RTT, 0) > rtt ? tcp_value(now, TCP_RTT, 0) : rtt;
	}
	rank_name(from, sizeof(from), m, first->proc);
	if (first->peer)
		rank_name(to, sizeof(to), m, first->peer->proc);
	else
		snprintf(to, sizeof(to), "%s", first->remote);
	snprintf(group, sizeof(group), "TCP %s → %s", from, to);
	/* lint: drawn at a sample, so there is one */
	machine_counter_draw(s, pair_index(first), group, "acknowledged bytes/s", tcp_sample_at(first, 0)->ts_ns,
			     (int64_t)(sent + 0.5));
	/* lint: drawn at a sample, so there is one */
	machine_counter_draw(s, pair_index(first), group, "retransmits/s", tcp_sample_at(first, 0)->ts_ns,
			     (int64_t)(again + 0.5));
	/* lint: drawn at a sample, so there is one */
	machine_counter_draw(s, pair_index(first), group, "round trip us", tcp_sample_at(first, 0)->ts_ns,
			     (int64_t)rtt);
}

/* Once a sample of all: with the first connection of the pair. */
void tcp_event_draw(struct perfetto_sink *s, const struct event *e, const struct model *m)
{
	const struct tcp_connection *c = tcp_connection_of(m, e->node, e->tcp.index);

	if (!c || c->n_samples < 2)
		return;
	for (uint32_t i = 0; i < c->index; i++)
		if (m->tcp.at[i] && is_pair(m->tcp.at[i], c))
			return;
	pair_draw(s, m, c);
}
