/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_pairs.c - see tcp_pairs.h. What a kernel does not tell is no sign of anything.
 */
#include "detect/tcp_pairs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SEC 1000000000ull
#define NEEDED 3              /* rounds of the newest TCP_ROUNDS; of a state, the */
#define NEEDED_OF_STATE 2     /* newest ones running */
#define HOLD_NS (10 * SEC)    /* what moved is told for so long after its last sign */
#define FORGET_NS (60 * SEC)
#define BACKOFF 2             /* timer doubled so often: 0.6 s without an answer at the shortest */
#define CONNECT_TIMEOUTS 3    /* a SYN sent again so often: 7 s */
#define LOST_MIN 3            /* segments a round, and */
#define LOST_SHARE 1e-3       /* of those sent: as of RDMA ports ten times over, since a busy TCP always loses some */
#define FLOWING_SEGMENTS 4    /* a round: fewer tell of the peer's answers, not of the path */
#define SLOW_US 5000          /* longer than any path inside a data centre takes, and */
#define SLOW_TIMES 10         /* than the quickest pair's */
#define MARKED_MIN 10
#define MARKED_SHARE 0.01
#define BUFFER_SHARE 0.5      /* of the time */

static struct tcp_pair *pair_get(struct tcp_pairs *s, const struct tcp_connection *c)
{
	bool turned = strcmp(c->local, c->remote) > 0;
	const char *a = turned ? c->remote : c->local, *b = turned ? c->local : c->remote;
	struct tcp_pair *p;

	for (p = s->all; p; p = p->next)
		if (!strcmp(p->a, a) && !strcmp(p->b, b))
			return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->a = a;
	p->b = b;
	p->next = s->all;
	s->all = p;
	return p;
}

/* --- one connection --- */

static bool is_stalled(const struct tcp_look *l, const struct tcp_look *before)
{
	bool sent = tcp_value(l, TCP_UNACKED, 0) || tcp_value(l, TCP_PROBES, 0) > 1;

	if (l->state == TCP_STATE_SYN_SENT)
		return tcp_value(l, TCP_TIMEOUTS, 0) >= CONNECT_TIMEOUTS;
	return sent && tcp_value(l, TCP_BACKOFF, 0) >= BACKOFF && !tcp_grown(l, before, TCP_BYTES_ACKED) &&
	       l->counters[TCP_BYTES_ACKED] != TCP_NOT_TOLD;
}

static bool is_not_read(const struct tcp_look *l, const struct tcp_look *before)
{
	return tcp_value(l, TCP_SEND_WINDOW, 1) == 0 && tcp_value(l, TCP_NOT_SENT, 0) && !tcp_value(l, TCP_UNACKED, 1) &&
	       tcp_value(l, TCP_PROBES, 0) <= 1 && !tcp_grown(l, before, TCP_BYTES_ACKED);
}

static void sign(struct tcp_pair *p, enum tcp_fault f, const struct tcp_connection *c, bool is)
{
	if (is && !p->is[f])
		p->worst[f] = c->index;
	p->is[f] |= is;
}

static void rates_add(struct tcp_pair *p, const struct tcp_connection *c, const struct tcp_look *l, const struct tcp_look *before)
{
	uint64_t again = tcp_grown(l, before, TCP_RETRANSMITS), had = tcp_grown(l, before, TCP_DSACKS), rtt = tcp_value(l, TCP_RTT, 0);
	uint64_t segments = tcp_grown(l, before, TCP_DATA_SEGMENTS_SENT);

	if (again > had && again - had > p->lost)
		p->worst[TCP_FAULT_LOSS] = c->index;
	p->lost += again > had ? again - had : 0;
	p->segments += segments;
	p->marked += tcp_grown(l, before, TCP_DELIVERED_CE);
	p->delivered += tcp_grown(l, before, TCP_DELIVERED);
	p->bytes += tcp_grown(l, before, TCP_BYTES_ACKED);
	p->n_moving += tcp_grown(l, before, TCP_BYTES_ACKED) > 0;
	if (segments < FLOWING_SEGMENTS || !rtt || (p->rtt_us && p->rtt_us <= rtt))
		return;
	p->rtt_us = rtt;
	p->worst[TCP_FAULT_SLOW] = c->index;
}

static void look_add(struct tcp_pair *p, const struct tcp_connection *c, const struct tcp_look *l, const struct tcp_look *before)
{
	double seconds = (l->taken_ns - before->taken_ns) * 1e-9;
	bool down = l->netdev_known && !l->netdev_up;

	p->seen_ns = l->ts_ns;
	p->n_connections++;
	p->seconds = seconds > p->seconds ? seconds : p->seconds;
	sign(p, TCP_FAULT_NETDEV, c, down);
	p->netdev_down[strcmp(c->local, p->a) ? 1 : 0] |= down;
	sign(p, TCP_FAULT_STALL, c, is_stalled(l, before));
	sign(p, TCP_FAULT_NOT_READ, c, is_not_read(l, before));
	sign(p, TCP_FAULT_BUFFER, c, tcp_grown(l, before, TCP_BUFFER_LIMITED) * 1e-6 >= BUFFER_SHARE * seconds);
	rates_add(p, c, l, before);
}

/* --- a round --- */

static void round_begin(struct tcp_pairs *s)
{
	for (struct tcp_pair *p = s->all; p; p = p->next) {
		p->seconds = 0;
		p->segments = p->lost = p->marked = p->delivered = p->rtt_us = p->bytes = 0;
		p->n_connections = p->n_moving = 0;
		p->netdev_down[0] = p->netdev_down[1] = false;
		memset(p->is, 0, sizeof(p->is));
	}
	s->rtt_best_us = 0;
}

/* Connections with a look that was not seen yet. */
static int connections_add(struct tcp_pairs *s, const struct model *m)
{
	for (uint32_t i = 0; i < m->tcp.n; i++) {
		const struct tcp_connection *c = m->tcp.at[i];
		const struct tcp_look *l = c ? tcp_look_at(c, 0) : NULL, *before = c ? tcp_look_at(c, 1) : NULL;

		if (c && s->of[i].id != c->id) {
			s->of[i].pair = pair_get(s, c);
			if (!s->of[i].pair)
				return -ENOMEM;
			s->of[i].id = c->id;
			s->of[i].taken_ns = 0;
		}
		if (!before || l->taken_ns <= s->of[i].taken_ns || l->taken_ns <= before->taken_ns)
			continue;
		s->of[i].taken_ns = l->taken_ns;
		look_add(s->of[i].pair, c, l, before);
	}
	return 0;
}

static bool is_state(enum tcp_fault f)
{
	return f == TCP_FAULT_NETDEV || f == TCP_FAULT_STALL;
}

/* The first of the rounds that made it a fault. */
static uint64_t first_ns(const struct tcp_pair *p, unsigned int bits)
{
	int oldest = 0;

	for (int i = 0; i < TCP_ROUNDS; i++)
		oldest = bits >> i & 1 ? i : oldest;
	return p->round_ns[oldest];
}

static void bits_take(struct tcp_pair *p, uint64_t now_ns)
{
	memmove(p->round_ns + 1, p->round_ns, sizeof(p->round_ns) - sizeof(p->round_ns[0]));
	p->round_ns[0] = now_ns;
	for (int f = 0; f < TCP_FAULTS; f++) {
		unsigned int newest = (1 << (is_state(f) ? NEEDED_OF_STATE : TCP_ROUNDS)) - 1;

		p->bits[f] = (p->bits[f] << 1 | p->is[f]) & ((1 << TCP_ROUNDS) - 1);
		if (p->is[f] && __builtin_popcount(p->bits[f] & newest) >= (is_state(f) ? NEEDED_OF_STATE : NEEDED)) {
			p->since_ns[f] = p->since_ns[f] ? p->since_ns[f] : first_ns(p, p->bits[f] & newest);
			p->last_ns[f] = now_ns;
		} else if (is_state(f) && !p->is[f]) {
			p->since_ns[f] = 0;
		}
	}
}

static void round_end(struct tcp_pairs *s, uint64_t now_ns)
{
	for (struct tcp_pair *p = s->all; p; p = p->next)
		if (p->rtt_us && (!s->rtt_best_us || p->rtt_us < s->rtt_best_us))
			s->rtt_best_us = p->rtt_us;
	for (struct tcp_pair *p = s->all; p; p = p->next) {
		if (!p->n_connections)
			continue;
		p->is[TCP_FAULT_LOSS] = p->lost >= LOST_MIN && p->lost >= LOST_SHARE * p->segments;
		p->is[TCP_FAULT_SLOW] = p->rtt_us >= SLOW_US && p->rtt_us >= SLOW_TIMES * s->rtt_best_us;
		p->is[TCP_FAULT_MARKS] = p->marked >= MARKED_MIN && p->marked >= MARKED_SHARE * p->delivered;
		bits_take(p, now_ns);
	}
}

static bool is_new(const struct tcp_pairs *s, const struct model *m)
{
	for (uint32_t i = 0; i < m->tcp.n; i++) {
		const struct tcp_connection *c = m->tcp.at[i];
		const struct tcp_look *l = c ? tcp_look_at(c, 0) : NULL;

		if (l && tcp_look_at(c, 1) && (s->of[i].id != c->id || l->taken_ns > s->of[i].taken_ns))
			return true;
	}
	return false;
}

/* Those without a connection since long, and faults without a sign of them. */
static void old_forget(struct tcp_pairs *s, uint64_t now_ns)
{
	struct tcp_pair **link = &s->all, *p;

	while ((p = *link)) {
		for (int f = 0; f < TCP_FAULTS; f++)
			if (p->since_ns[f] && now_ns > p->last_ns[f] + HOLD_NS)
				p->since_ns[f] = 0;
		if (!p->seen_ns)
			p->seen_ns = now_ns;
		if (now_ns < p->seen_ns + FORGET_NS) {
			link = &p->next;
			continue;
		}
		for (int i = 0; i < TCP_CONNECTIONS_MAX; i++)
			if (s->of[i].pair == p)
				s->of[i].id = 0, s->of[i].pair = NULL;
		*link = p->next;
		free(p);
	}
}

int tcp_pairs_look(struct tcp_pairs *s, const struct model *m)
{
	int err = 0;

	if (is_new(s, m)) {
		round_begin(s);
		err = connections_add(s, m);
		round_end(s, m->now_ns);
	}
	old_forget(s, m->now_ns);
	return err;
}

void tcp_pairs_free(struct tcp_pairs *s)
{
	struct tcp_pair *p;

	while ((p = s->all)) {
		s->all = p->next;
		free(p);
	}
}
