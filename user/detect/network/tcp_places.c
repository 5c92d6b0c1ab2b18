/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_places.c - see tcp_places.h.
 */
#include "detect/network/tcp_places.h"

#include <string.h>

#define PAIRS_TAKEN_MAX 256

bool tcp_pair_has(const struct tcp_pair *p, const char *address)
{
	return !strcmp(p->a, address) || !strcmp(p->b, address);
}

struct search {
	const struct tcp_pairs *s;
	enum tcp_fault f;
	const struct tcp_pair *taken[PAIRS_TAKEN_MAX]; /* explained already */
	int n_taken;
	struct tcp_place *places;
	int n_places;
};

static bool is_taken(const struct search *q, const struct tcp_pair *p)
{
	for (int i = 0; i < q->n_taken; i++)
		if (q->taken[i] == p)
			return true;
	return false;
}

static bool is_bad(const struct search *q, const struct tcp_pair *p)
{
	return p->since_ns[q->f] && !is_taken(q, p);
}

/* It shows that its path is well. Nothing is known of one that is idle. */
static bool is_well(const struct search *q, const struct tcp_pair *p)
{
	if (p->since_ns[q->f])
		return false;
	return q->f == TCP_FAULT_SLOW ? p->rtt_us > 0 : p->n_moving > 0;
}

struct tally {
	int n_bad, n_well;
	uint64_t since_ns;
	const struct tcp_pair *one;
};

/* Of pairs with this address; NULL: of all. */
static struct tally tally_of(const struct search *q, const char *address)
{
	struct tally t = { 0 };

	for (const struct tcp_pair *p = q->s->table.all; p; p = p->keyed.next) {
		if (address && !tcp_pair_has(p, address))
			continue;
		t.n_well += is_well(q, p);
		if (!is_bad(q, p))
			continue;
		t.n_bad++;
		if (t.one && p->since_ns[q->f] >= t.since_ns)
			continue;
		t.one = p;
		t.since_ns = p->since_ns[q->f];
	}
	return t;
}

static void place_add(struct search *q, struct tcp_place place)
{
	if (q->n_places < TCP_PLACES_MAX)
		q->places[q->n_places++] = place;
	for (const struct tcp_pair *p = q->s->table.all; p; p = p->keyed.next)
		if (is_bad(q, p) && q->n_taken < PAIRS_TAKEN_MAX &&
		    (place.everywhere || p == place.pair || (place.address && tcp_pair_has(p, place.address))))
			q->taken[q->n_taken++] = p;
}

/* The address that most of what is bad goes from or to, when nothing well does. */
static const char *host_find(const struct search *q, struct tally *ret)
{
	const char *best = NULL;

	*ret = (struct tally){ 0 };
	for (const struct tcp_pair *p = q->s->table.all; p; p = p->keyed.next) {
		const char *ends[] = { p->a, p->b };

		for (int i = 0; i < 2 && is_bad(q, p); i++) {
			struct tally t = tally_of(q, ends[i]);

			if (t.n_bad < 2 || t.n_well || t.n_bad <= ret->n_bad)
				continue;
			*ret = t;
			best = ends[i];
		}
	}
	return best;
}

/* What has no carrier is known without counting. */
static void netdevs_find(struct search *q)
{
	for (const struct tcp_pair *p = q->s->table.all; p; p = p->keyed.next) {
		const char *ends[] = { p->a, p->b };

		for (int i = 0; i < 2; i++) {
			struct tally t = tally_of(q, ends[i]);

			if (is_bad(q, p) && p->netdev_down[i])
				place_add(q, (struct tcp_place){ .address = ends[i],
								 .pair = t.one,
								 .n_pairs = t.n_bad,
								 .since_ns = t.since_ns });
		}
	}
}

int tcp_places_find(const struct tcp_pairs *s, enum tcp_fault f, struct tcp_place places[TCP_PLACES_MAX])
{
	struct search q = { .s = s, .f = f, .places = places };
	struct tally all = tally_of(&q, NULL), t;
	const char *host;

	if (f == TCP_FAULT_NETDEV)
		netdevs_find(&q);
	host = host_find(&q, &t);
	if (all.n_bad >= 3 && !all.n_well && (!host || t.n_bad < all.n_bad))
		place_add(&q, (struct tcp_place){ .everywhere = true,
						  .pair = all.one,
						  .n_pairs = all.n_bad,
						  .since_ns = all.since_ns });
	while ((host = host_find(&q, &t)))
		place_add(&q, (struct tcp_place){
				      .address = host, .pair = t.one, .n_pairs = t.n_bad, .since_ns = t.since_ns });
	for (const struct tcp_pair *p = s->table.all; p && q.n_places < TCP_PLACES_MAX; p = p->keyed.next)
		if (is_bad(&q, p))
			place_add(&q, (struct tcp_place){ .pair = p, .n_pairs = 1, .since_ns = p->since_ns[f] });
	return q.n_places;
}
