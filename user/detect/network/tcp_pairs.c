/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_pairs.c - see tcp_pairs.h. What a kernel does not say is no sign of anything.
 */
#include "detect/network/tcp_pairs.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "detect/network/tcp_slow.h"

#define SEC 1000000000ull
#define NEEDED 3           /* rounds of the newest TCP_ROUNDS; of a state, the */
#define NEEDED_OF_STATE 2  /* newest ones running */
#define HOLD_NS (10 * SEC) /* what moved is reported for so long after its last sign */
#define FORGET_NS (60 * SEC)
#define BACKOFF 2          /* timer doubled so often: 0.6 s without an answer at the shortest */
#define CONNECT_TIMEOUTS 3 /* a SYN sent again so often: 7 s */
#define LOST_MIN 3         /* segments a round, and */
#define LOST_SHARE 1e-3    /* of those sent: as of RDMA ports ten times over, since a busy TCP always loses some. Or: */
#define LOST_SHARE_OF_FEW 1e-2 /* of a job that each loss delays, and so loses few; and */
#define LOST_ROUNDS_MIN 5      /* in all of the newest rounds */
#define SEGMENTS_MOST 1e12     /* of a connection between two samples: more than any can send */
#define FLOWING_SEGMENTS 4     /* a round: fewer say of the peer's answers, not of the path */
#define FREE_TIMES 2           /* of the rounds in which something was lost, so many more without a queue */
#define SCATTER 2              /* mean deviations: quick answers among late ones lie within */
#define MARKED_MIN 10
#define MARKED_SHARE 0.01
#define BUFFER_SHARE 0.5 /* of the time */

static struct tcp_pair *pair_get(struct tcp_pairs *s, const struct tcp_connection *c)
{
	bool turned = strcmp(c->local, c->remote) > 0;
	const char *a = turned ? c->remote : c->local, *b = turned ? c->local : c->remote;
	struct tcp_pair *p = keyed_get(&s->table, hash_text(0, a), hash_text(0, b), sizeof(*p));

	if (p && !p->a) {
		p->a = strncat(p->texts[0], a, TCP_ADDRESS_TEXT - 1);
		p->b = strncat(p->texts[1], b, TCP_ADDRESS_TEXT - 1);
	}
	return p;
}

/* --- one connection --- */

static bool is_stalled(const struct tcp_sample *l, const struct tcp_sample *before)
{
	bool sent = tcp_value(l, TCP_UNACKED, 0) || tcp_value(l, TCP_PROBES, 0) > 1;

	if (l->now.state == TCP_STATE_SYN_SENT)
		return tcp_value(l, TCP_TIMEOUTS, 0) >= CONNECT_TIMEOUTS;
	return sent && tcp_value(l, TCP_BACKOFF, 0) >= BACKOFF && !tcp_grown(l, before, TCP_BYTES_ACKED) &&
	       !tcp_grown(l, before, TCP_SEGMENTS_RECEIVED) && l->counters[TCP_BYTES_ACKED] != TCP_NO_VALUE;
}

static bool is_not_read(const struct tcp_sample *l, const struct tcp_sample *before)
{
	return tcp_value(l, TCP_SEND_WINDOW, 1) == 0 && tcp_value(l, TCP_NOT_SENT, 0) &&
	       !tcp_value(l, TCP_UNACKED, 1) && tcp_value(l, TCP_PROBES, 0) <= 1 &&
	       !tcp_grown(l, before, TCP_BYTES_ACKED);
}

static void sign(struct tcp_pair *p, enum tcp_fault f, const struct tcp_connection *c, bool is)
{
	if (is && !p->is[f])
		p->worst[f] = c->index;
	p->is[f] |= is;
}

/* Sent again, less what came twice: a recording may hold any number. */
static int64_t lost_since(const struct tcp_sample *l, const struct tcp_sample *before)
{
	double lost = (double)tcp_grown(l, before, TCP_RETRANSMITS) - (double)tcp_grown(l, before, TCP_DSACKS);

	return fmax(-SEGMENTS_MOST, fmin(lost, SEGMENTS_MOST));
}

static void rates_add(struct tcp_pair *p, const struct tcp_connection *c, const struct tcp_sample *l,
		      const struct tcp_sample *before)
{
	int64_t lost = lost_since(l, before);
	uint64_t segments = tcp_grown(l, before, TCP_DATA_SEGMENTS_SENT), rtt = tcp_value(l, TCP_RTT, 0);
	uint64_t busy = tcp_grown(l, before, TCP_BUSY), window = tcp_grown(l, before, TCP_WINDOW_LIMITED);
	uint64_t scatter = SCATTER * tcp_value(l, TCP_RTT_VARIATION, 0);

	if (lost > p->lost)
		p->worst[TCP_FAULT_LOSS] = c->index;
	p->lost += lost;
	p->segments += segments;
	p->busy_us += busy > window ? busy - window : 0; /* a receiver without room is no path's */
	p->marked += tcp_grown(l, before, TCP_DELIVERED_CE);
	p->delivered += tcp_grown(l, before, TCP_DELIVERED);
	p->bytes += tcp_grown(l, before, TCP_BYTES_ACKED);
	p->n_moving += tcp_grown(l, before, TCP_BYTES_ACKED) > 0;
	if (segments < FLOWING_SEGMENTS || !rtt || (p->rtt_us && p->rtt_us <= rtt))
		return;
	p->rtt_us = rtt;
	p->rtt_low_us = rtt > scatter ? rtt - scatter : 0;
	p->worst[TCP_FAULT_SLOW] = c->index;
}

static void sample_add(struct tcp_pair *p, const struct tcp_connection *c, const struct tcp_sample *l,
		       const struct tcp_sample *before)
{
	double seconds = (l->now.taken_ns - before->now.taken_ns) * 1e-9;
	bool down = (l->now.flags & (TCP_NETDEV_KNOWN | TCP_NETDEV_UP)) == TCP_NETDEV_KNOWN;

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
	for (struct tcp_pair *p = s->table.all; p; p = p->keyed.next) {
		p->seconds = 0;
		p->segments = p->marked = p->delivered = p->rtt_us = p->rtt_low_us = p->bytes = p->busy_us = 0;
		p->lost = 0;
		p->n_connections = p->n_moving = 0;
		p->netdev_down[0] = p->netdev_down[1] = false;
		memset(p->is, 0, sizeof(p->is));
	}
	s->rtt_best_us = 0;
}

/* Connections with a sample that was not seen yet. */
static int connections_add(struct tcp_pairs *s, const struct model *m)
{
	for (uint32_t i = 0; i < m->tcp.n; i++) {
		const struct tcp_connection *c = m->tcp.at[i];
		const struct tcp_sample *l = c ? tcp_sample_at(c, 0) : NULL, *before = c ? tcp_sample_at(c, 1) : NULL;

		if (c && s->of[i].id != c->id) {
			s->of[i].pair = pair_get(s, c);
			if (!s->of[i].pair)
				return -ENOMEM;
			s->of[i].id = c->id;
			s->of[i].taken_ns = 0;
		}
		if (!before || l->now.taken_ns <= s->of[i].taken_ns || l->now.taken_ns <= before->now.taken_ns)
			continue;
		s->of[i].taken_ns = l->now.taken_ns;
		sample_add(s->of[i].pair, c, l, before);
	}
	return 0;
}

static bool is_state(enum tcp_fault f)
{
	return f == TCP_FAULT_NETDEV || f == TCP_FAULT_STALL;
}

/* The first of the rounds that made it a fault. */
static uint64_t first_ns(const struct tcp_pair *p, enum tcp_fault f, unsigned int bits)
{
	int oldest = 0;

	for (int i = 0; i < TCP_ROUNDS; i++)
		oldest = bits >> i & 1 ? i : oldest;
	return p->round_ns[f][oldest];
}

/* A round in which nothing was sent shows neither that a path is slow nor that it is not. */
static bool is_shown(const struct tcp_pair *p, enum tcp_fault f)
{
	return f == TCP_FAULT_SLOW   ? p->rtt_us
	       : f == TCP_FAULT_LOSS ? p->segments || p->lost
				     : f != TCP_FAULT_MARKS || p->delivered;
}

static bool is_enough(const struct tcp_pair *p, enum tcp_fault f, unsigned int newest)
{
	if (f == TCP_FAULT_LOSS && tcp_pair_lost(p) < LOST_ROUNDS_MIN)
		return false;
	return __builtin_popcount(p->bits[f] & newest) >= (is_state(f) ? NEEDED_OF_STATE : NEEDED);
}

static void bit_take(struct tcp_pair *p, enum tcp_fault f, uint64_t now_ns)
{
	unsigned int newest = (1 << (is_state(f) ? NEEDED_OF_STATE : TCP_ROUNDS)) - 1;

	memmove(p->round_ns[f] + 1, p->round_ns[f], sizeof(p->round_ns[f]) - sizeof(p->round_ns[f][0]));
	p->round_ns[f][0] = now_ns;
	p->bits[f] = (p->bits[f] << 1 | p->is[f]) & ((1 << TCP_ROUNDS) - 1);
	if (p->is[f] && is_enough(p, f, newest)) {
		p->since_ns[f] = p->since_ns[f] ? p->since_ns[f] : first_ns(p, f, p->bits[f] & newest);
		p->last_ns[f] = now_ns;
	} else if (is_state(f) && !p->is[f]) {
		p->since_ns[f] = 0;
	}
}

static void traffic_note(const struct tcp_pairs *s, struct tcp_pair *p, enum tcp_fault f)
{
	p->traffic[f][0] = tcp_traffic_of(&s->netdevs, p->a);
	p->traffic[f][1] = tcp_traffic_of(&s->netdevs, p->b);
}

static bool is_lost(const struct tcp_pair *p)
{
	return p->lost >= LOST_MIN ? p->lost >= LOST_SHARE * p->segments
				   : p->lost > 0 && p->lost >= LOST_SHARE_OF_FEW * p->segments;
}

static void lost_take(struct tcp_pair *p)
{
	memmove(p->lost_of + 1, p->lost_of, sizeof(p->lost_of) - sizeof(p->lost_of[0]));
	p->lost_of[0] = p->lost;
}

int64_t tcp_pair_lost(const struct tcp_pair *p)
{
	int64_t sum = 0;

	for (int i = 0; i < TCP_ROUNDS; i++)
		sum += p->lost_of[i];
	return sum > 0 ? sum : 0;
}

/* More than ever, as far as that is known. */
static bool others_fill(const struct tcp_pair *p, int end)
{
	double come = p->traffic[TCP_FAULT_STALL][end].others_come_per_s;

	return p->traffic[TCP_FAULT_STALL][end].others > 0 && come > TCP_CHATTER_PER_S &&
	       (!tcp_past_known(&p->past) || come > tcp_past_comes(&p->past, end));
}

/* It stays so until the stall ends: the timer, doubled again and again, goes on when the others have gone. */
static void stall_note(struct tcp_pair *p)
{
	p->n_stalled = p->is[TCP_FAULT_STALL] ? p->n_stalled + 1 : 0;
	for (int end = 0; end < 2; end++)
		p->stalled_full[end] = p->n_stalled && (p->stalled_full[end] || others_fill(p, end));
}

static void queue_note(const struct tcp_pairs *s, struct tcp_pair *p)
{
	if (!p->since_ns[TCP_FAULT_LOSS] && !p->bits[TCP_FAULT_LOSS]) {
		p->n_lossy_queued = p->n_lossy_free = 0;
		p->lost_freely = false;
	}
	if (!p->is[TCP_FAULT_LOSS] || !p->rtt_us)
		return;
	if (tcp_slow_no_queue(s, p))
		p->n_lossy_free++;
	else
		p->n_lossy_queued++;
	p->lost_freely |= p->n_lossy_free >= NEEDED && p->n_lossy_free >= FREE_TIMES * p->n_lossy_queued;
}

bool tcp_pair_is_local(const struct tcp_pair *p)
{
	return !strcmp(p->a, p->b);
}

/* Sums of the round into what is kept, of all pairs before one is judged. */
static void sums_take(struct tcp_pairs *s)
{
	for (struct tcp_pair *p = s->table.all; p; p = p->keyed.next) {
		if (p->n_connections)
			lost_take(p);
		if (!p->rtt_us)
			continue;
		tcp_past_take(&p->past,
			      (struct tcp_round){ p->rtt_us,
						  p->busy_us,
						  p->bytes,
						  { tcp_traffic_of(&s->netdevs, p->a).comes_per_s,
						    tcp_traffic_of(&s->netdevs, p->b).comes_per_s } },
			      !p->since_ns[TCP_FAULT_SLOW] && !p->since_ns[TCP_FAULT_LOSS]);
		if (!tcp_pair_is_local(p) && (!s->rtt_best_us || p->rtt_us < s->rtt_best_us))
			s->rtt_best_us = p->rtt_us;
	}
}

static void round_end(struct tcp_pairs *s, const struct model *m)
{
	tcp_netdevs_take(&s->netdevs, m);
	sums_take(s);
	for (struct tcp_pair *p = s->table.all; p; p = p->keyed.next) {
		if (!p->n_connections)
			continue;
		p->is[TCP_FAULT_LOSS] = is_lost(p);
		p->is[TCP_FAULT_SLOW] = tcp_slow_judge(s, p);
		queue_note(s, p);
		p->is[TCP_FAULT_MARKS] = p->marked >= MARKED_MIN && p->marked >= MARKED_SHARE * p->delivered;
		for (int f = 0; f < TCP_FAULTS; f++) {
			if (is_shown(p, f))
				bit_take(p, f, m->now_ns);
			if (p->is[f])
				traffic_note(s, p, f);
		}
		stall_note(p);
	}
}

static bool is_new(const struct tcp_pairs *s, const struct model *m)
{
	for (uint32_t i = 0; i < m->tcp.n; i++) {
		const struct tcp_connection *c = m->tcp.at[i];
		const struct tcp_sample *l = c ? tcp_sample_at(c, 0) : NULL;

		if (l && tcp_sample_at(c, 1) && (s->of[i].id != c->id || l->now.taken_ns > s->of[i].taken_ns))
			return true;
	}
	return false;
}

/* Faults without a sign of them since long are over. */
static void faults_forget(struct tcp_pair *p, uint64_t now_ns)
{
	for (int f = 0; f < TCP_FAULTS; f++)
		if (p->since_ns[f] && now_ns > p->last_ns[f] + HOLD_NS)
			p->since_ns[f] = 0;
}

static bool is_kept(const struct tcp_pair *p, uint64_t now_ns)
{
	return now_ns < p->seen_ns + FORGET_NS;
}

static bool pair_lives(void *entry, const void *now_ns)
{
	return is_kept(entry, *(const uint64_t *)now_ns);
}

/* Pairs without a connection since long, and faults without a sign of them. */
static void old_forget(struct tcp_pairs *s, uint64_t now_ns)
{
	for (struct tcp_pair *p = s->table.all; p; p = p->keyed.next) {
		faults_forget(p, now_ns);
		p->seen_ns = p->seen_ns ? p->seen_ns : now_ns;
	}
	for (uint32_t i = 0; i < s->n_of; i++)
		if (s->of[i].pair && !is_kept(s->of[i].pair, now_ns))
			s->of[i].id = 0, s->of[i].pair = NULL;
	keyed_keep(&s->table, pair_lives, &now_ns);
}

static int room_make(struct tcp_pairs *s, uint32_t n)
{
	struct tcp_pair_of *grown = n > s->n_of ? realloc(s->of, 2 * n * sizeof(*grown)) : s->of;

	if (n <= s->n_of)
		return 0;
	if (!grown)
		return -ENOMEM;
	memset(grown + s->n_of, 0, (2 * n - s->n_of) * sizeof(*grown));
	s->of = grown;
	s->n_of = 2 * n;
	return 0;
}

int tcp_pairs_update(struct tcp_pairs *s, const struct model *m)
{
	int err = room_make(s, m->tcp.n);

	if (err)
		return err;
	if (is_new(s, m)) {
		round_begin(s);
		err = connections_add(s, m);
		round_end(s, m);
	}
	old_forget(s, m->now_ns);
	return err;
}

void tcp_pairs_free(struct tcp_pairs *s)
{
	keyed_free(&s->table);
	free(s->of);
	s->of = NULL;
	s->n_of = 0;
}
