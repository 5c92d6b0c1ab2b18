/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp.c - TCP connections of the ranks, and which two are the ends of one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

const struct tcp_connection *tcp_connection_of(const struct model *m, uint32_t index)
{
	return index < TCP_CONNECTIONS_MAX ? m->tcp.at[index] : NULL;
}

static bool are_ends(const struct tcp_connection *a, const struct tcp_connection *b)
{
	return a != b && a->local_port == b->remote_port && a->remote_port == b->local_port &&
	       !strcmp(a->local, b->remote) && !strcmp(a->remote, b->local);
}

/* Namespaces that do not see each other may use the same addresses: then the end in its own counts, or none. */
static const struct tcp_connection *peer_find(const struct model *m, const struct tcp_connection *c)
{
	const struct tcp_connection *found = NULL, *here = NULL;
	int n = 0;

	for (uint32_t i = 0; i < m->tcp.n; i++) {
		const struct tcp_connection *o = m->tcp.at[i];

		if (!o || !are_ends(c, o))
			continue;
		found = o;
		here = o->netns == c->netns ? o : here;
		n++;
	}
	return here ? here : n == 1 ? found : NULL;
}

uint64_t tcp_grown(const struct tcp_look *now, const struct tcp_look *before, enum tcp_counter counter)
{
	uint64_t a = before->counters[counter], b = now->counters[counter];

	return a != TCP_NOT_TOLD && b != TCP_NOT_TOLD && b > a ? b - a : 0;
}

uint64_t tcp_value(const struct tcp_look *l, enum tcp_counter counter, uint64_t unknown)
{
	return l->counters[counter] != TCP_NOT_TOLD ? l->counters[counter] : unknown;
}

static void peers_find(struct model *m, const struct tcp_connection *changed)
{
	for (uint32_t i = 0; i < m->tcp.n; i++)
		if (m->tcp.at[i] && (m->tcp.at[i] == changed || are_ends(m->tcp.at[i], changed)))
			m->tcp.at[i]->peer = peer_find(m, m->tcp.at[i]);
}

static void forget(struct model *m, uint32_t index)
{
	struct tcp_connection *c = m->tcp.at[index];

	m->tcp.at[index] = NULL;
	if (c)
		peers_find(m, c);
	free(c);
	while (m->tcp.n && !m->tcp.at[m->tcp.n - 1])
		m->tcp.n--;
}

static int id_take(struct model *m, const struct event *e)
{
	struct tcp_connection *c = malloc(sizeof(*c));

	if (!c)
		return -ENOMEM;
	forget(m, e->tcp.index);
	*c = (struct tcp_connection){
		.index = e->tcp.index,
		.tgid = e->tgid,
		.id = ++m->tcp.n_ever,
		.netns = e->tcp.id.netns,
		.local = e->tcp.id.local,
		.remote = e->tcp.id.remote,
		.netdev = e->tcp.id.netdev,
		.local_port = e->tcp.id.local_port,
		.remote_port = e->tcp.id.remote_port,
	};
	m->tcp.at[e->tcp.index] = c;
	m->tcp.n = m->tcp.n > e->tcp.index ? m->tcp.n : e->tcp.index + 1;
	peers_find(m, c);
	return 0;
}

static void look_take(struct tcp_connection *c, const struct event *e)
{
	struct tcp_look *l = &c->looks[c->n_looks++ % TCP_LOOKS_KEPT];

	*l = (struct tcp_look){ .ts_ns = e->ts_ns,
				.taken_ns = e->tcp.look.taken_ns,
				.state = e->tcp.look.state,
				.netdev_known = e->tcp.look.netdev_known,
				.netdev_up = e->tcp.look.netdev_up };
	for (uint32_t i = 0; i < TCP_COUNTERS; i++)
		l->counters[i] = i < e->tcp.look.n_counters ? e->tcp.look.counters[i] : TCP_NOT_TOLD;
}

int tcp_apply(struct model *m, const struct event *e)
{
	if (e->tcp.index >= TCP_CONNECTIONS_MAX)
		return -EINVAL;
	if (e->kind == EV_TCP)
		return id_take(m, e);
	if (!m->tcp.at[e->tcp.index]) /* a recording that begins behind its identity */
		return 0;
	if (e->tcp.look.gone)
		forget(m, e->tcp.index);
	else
		look_take(m->tcp.at[e->tcp.index], e);
	return 0;
}

void tcp_free(struct model *m)
{
	for (uint32_t i = 0; i < TCP_CONNECTIONS_MAX; i++)
		free(m->tcp.at[i]);
}
