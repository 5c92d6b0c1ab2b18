/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp.c - TCP connections of the ranks, and which two are the ends of one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/larger.h"
#include "model/state.h"

const struct tcp_connection *tcp_connection_at(const struct model *m, uint32_t place)
{
	return place < m->tcp.n ? m->tcp.at[place] : NULL;
}

const struct tcp_connection *tcp_connection_of(const struct model *m, uint32_t node, uint32_t index)
{
	const struct node *n = model_node(m, node);
	uint32_t at = n && n->tcp && index < TCP_CONNECTIONS_MAX ? n->tcp->at[index] : 0;

	return at ? tcp_connection_at(m, at - 1) : NULL;
}

/* The session's own host has its own numbers: a recording of one host gives the same places again. */
static int place_find(struct model *m, const struct node *n, uint32_t index, uint32_t *ret)
{
	uint32_t place = index, cap = m->tcp.cap ? m->tcp.cap : TCP_CONNECTIONS_MAX;
	struct tcp_connection **grown;

	if (n->number) {
		place = larger(m->tcp.full, TCP_CONNECTIONS_MAX);
		while (place < m->tcp.n && m->tcp.at[place])
			place++;
		m->tcp.full = place;
	}
	while (cap <= place)
		cap *= 2;
	*ret = place;
	if (cap == m->tcp.cap)
		return 0;
	grown = realloc(m->tcp.at, cap * sizeof(struct tcp_connection *));
	if (!grown)
		return -ENOMEM;
	memset(grown + m->tcp.cap, 0, (cap - m->tcp.cap) * sizeof(struct tcp_connection *));
	m->tcp.at = grown;
	m->tcp.cap = cap;
	return 0;
}

/* --- who is whose other end --- */

struct tcp_ends { /* connections with these ends; of two with one hash all are in it */
	uint64_t hash;
	struct tcp_connection *first;
	UT_hash_handle hh;
};

static uint64_t ends_hash(const char *local, uint16_t local_port, const char *remote, uint16_t remote_port)
{
	return hash_mix(hash_text(hash_text(0, local), remote), (uint64_t)local_port << 16 | remote_port);
}

/* Those with the hash that `c` has, or that its other end has; NULL none. */
static struct tcp_ends *ends_of(const struct model *m, const struct tcp_connection *c, bool other)
{
	uint64_t hash = other ? ends_hash(c->remote, c->remote_port, c->local, c->local_port)
			      : ends_hash(c->local, c->local_port, c->remote, c->remote_port);
	struct tcp_ends *ends;

	HASH_FIND(hh, m->tcp.ends, &hash, sizeof(hash), ends);
	return ends;
}

static int ends_add(struct model *m, struct tcp_connection *c)
{
	struct tcp_ends *ends = ends_of(m, c, false);

	if (!ends) {
		ends = calloc(1, sizeof(*ends));
		if (!ends)
			return -ENOMEM;
		ends->hash = ends_hash(c->local, c->local_port, c->remote, c->remote_port);
		HASH_ADD(hh, m->tcp.ends, hash, sizeof(ends->hash), ends);
		if (!ends->hh.tbl) {
			free(ends);
			return -ENOMEM;
		}
	}
	c->next_same = ends->first;
	ends->first = c;
	return 0;
}

static void ends_remove(struct model *m, struct tcp_connection *c)
{
	struct tcp_ends *ends = ends_of(m, c, false);
	struct tcp_connection **link = ends ? &ends->first : NULL;

	while (link && *link && *link != c)
		link = &(*link)->next_same;
	if (link && *link)
		*link = c->next_same;
	if (!ends || ends->first)
		return;
	HASH_DEL(m->tcp.ends, ends);
	free(ends);
}

static bool are_ends(const struct tcp_connection *a, const struct tcp_connection *b)
{
	return a != b && a->local_port == b->remote_port && a->remote_port == b->local_port &&
	       !strcmp(a->local, b->remote) && !strcmp(a->remote, b->local);
}

/* Namespaces that do not see each other may use the same addresses: then the end in its own counts, or none. */
static const struct tcp_connection *peer_find(const struct model *m, const struct tcp_connection *c)
{
	const struct tcp_ends *ends = ends_of(m, c, true);
	const struct tcp_connection *found = NULL, *here = NULL;
	int n = 0;

	for (const struct tcp_connection *o = ends ? ends->first : NULL; o; o = o->next_same) {
		if (!are_ends(c, o))
			continue;
		found = o;
		here = o->netns == c->netns && (!here || o->index > here->index) ? o : here;
		n++;
	}
	return here ? here : n == 1 ? found : NULL;
}

uint64_t tcp_grown(const struct tcp_sample *now, const struct tcp_sample *before, enum tcp_counter counter)
{
	uint64_t a = before->counters[counter], b = now->counters[counter];

	return a != TCP_NO_VALUE && b != TCP_NO_VALUE && b > a ? b - a : 0;
}

uint64_t tcp_value(const struct tcp_sample *l, enum tcp_counter counter, uint64_t unknown)
{
	return l->counters[counter] != TCP_NO_VALUE ? l->counters[counter] : unknown;
}

/* Of `changed`, and of those whose peer it is, was, or is no more as one of several. */
static void peers_find(struct model *m, struct tcp_connection *changed)
{
	struct tcp_ends *ends = ends_of(m, changed, true);

	changed->peer = peer_find(m, changed);
	for (struct tcp_connection *o = ends ? ends->first : NULL; o; o = o->next_same)
		if (are_ends(o, changed))
			o->peer = peer_find(m, o);
}

static void forget(struct model *m, struct node *n, uint32_t index)
{
	struct tcp_connection *c = (struct tcp_connection *)tcp_connection_of(m, n->number, index);

	n->tcp->at[index] = 0;
	if (c) {
		m->tcp.at[c->index] = NULL;
		if (c->index >= TCP_CONNECTIONS_MAX && c->index < m->tcp.full)
			m->tcp.full = c->index;
		ends_remove(m, c);
		peers_find(m, c);
	}
	free(c);
	while (m->tcp.n && !m->tcp.at[m->tcp.n - 1])
		m->tcp.n--;
}

static int id_take(struct model *m, struct node *n, const struct event *e)
{
	struct tcp_connection *c = malloc(sizeof(*c));
	uint32_t place;

	if (!c)
		return -ENOMEM;
	forget(m, n, e->tcp.index);
	if (place_find(m, n, e->tcp.index, &place)) {
		free(c);
		return -ENOMEM;
	}
	*c = (struct tcp_connection){
		.index = place,
		.proc = event_proc(e),
		.id = ++m->tcp.n_ever,
		.netns = e->tcp.id.netns,
		.local = e->tcp.local,
		.remote = e->tcp.remote,
		.netdev = e->tcp.netdev,
		.local_port = e->tcp.id.local_port,
		.remote_port = e->tcp.id.remote_port,
	};
	if (ends_add(m, c)) {
		free(c);
		return -ENOMEM;
	}
	n->tcp->at[e->tcp.index] = place + 1;
	m->tcp.at[place] = c;
	m->tcp.n = larger(m->tcp.n, place + 1);
	peers_find(m, c);
	return 0;
}

static void sample_take(struct tcp_connection *c, const struct event *e)
{
	struct tcp_sample *l = &c->samples[c->n_samples++ % TCP_SAMPLES_KEPT];

	l->ts_ns = e->ts_ns;
	l->now = e->tcp.sample;
	for (uint32_t i = 0; i < TCP_COUNTERS; i++)
		l->counters[i] = i < e->tcp.sample.n_counters ? e->tcp.counters[i] : TCP_NO_VALUE;
}

int tcp_apply(struct model *m, const struct event *e)
{
	struct node *n = node_get(m, e->node);
	struct tcp_connection *c;

	if (e->tcp.index >= TCP_CONNECTIONS_MAX)
		return -EINVAL;
	if (n && !n->tcp)
		n->tcp = calloc(1, sizeof(*n->tcp));
	if (!n || !n->tcp)
		return -ENOMEM;
	if (e->kind == EV_TCP)
		return id_take(m, n, e);
	c = (struct tcp_connection *)tcp_connection_of(m, e->node, e->tcp.index);
	if (!c) /* a recording that begins behind its identity */
		return 0;
	if (e->tcp.sample.flags & TCP_GONE)
		forget(m, n, e->tcp.index);
	else
		sample_take(c, e);
	return 0;
}

void tcp_free(struct model *m)
{
	struct tcp_ends *ends, *next;

	HASH_ITER (hh, m->tcp.ends, ends, next) {
		HASH_DEL(m->tcp.ends, ends);
		free(ends);
	}
	for (uint32_t i = 0; i < m->tcp.n; i++)
		free(m->tcp.at[i]);
	free(m->tcp.at);
}
