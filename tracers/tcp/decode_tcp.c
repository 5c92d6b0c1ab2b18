/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_tcp.c - see decode_tcp.h.
 */
#include "tracers/tcp/decode_tcp.h"

#include <errno.h>

#include "schemas/facts.h"

static int identity(const struct fact_tcp *f, struct intern *strings, struct event *e)
{
	const uint16_t lens[] = { f->local_len, f->remote_len, f->netdev_len };
	const char **texts[] = { &e->tcp.id.local, &e->tcp.id.remote, &e->tcp.id.netdev };
	size_t at = sizeof(*f);

	e->kind = EV_TCP;
	e->tcp.index = f->index;
	e->tcp.id.inode = f->inode;
	e->tcp.id.cookie = f->cookie;
	e->tcp.id.netns = f->netns;
	e->tcp.id.local_port = f->local_port;
	e->tcp.id.remote_port = f->remote_port;
	for (int i = 0; i < 3; at += lens[i++]) {
		*texts[i] = at + lens[i] <= f->hdr.size ? intern_bytes(strings, (const char *)f + at, lens[i]) : NULL;
		if (!*texts[i])
			return -EINVAL;
	}
	return 1;
}

static int look(const struct fact_tcp_look *f, struct event *e)
{
	if (f->n_counters * sizeof(f->counters[0]) > f->hdr.size - sizeof(*f))
		return -EINVAL;
	e->kind = EV_TCP_LOOK;
	e->tcp.index = f->index;
	e->tcp.look.taken_ns = f->taken_ns;
	e->tcp.look.state = f->state;
	e->tcp.look.gone = f->flags & TCP_GONE;
	e->tcp.look.netdev_known = f->flags & TCP_NETDEV_KNOWN;
	e->tcp.look.netdev_up = f->flags & TCP_NETDEV_UP;
	e->tcp.look.cost_us = f->cost_us;
	e->tcp.look.n_left_out = f->n_left_out;
	e->tcp.look.n_counters = f->n_counters < TCP_COUNTERS ? f->n_counters : TCP_COUNTERS;
	e->tcp.look.counters = (const uint64_t *)f->counters;
	return 1;
}

int decode_tcp_fact(const struct wire_hdr *h, struct intern *strings, struct event *e)
{
	if (h->kind == FACT_TCP && h->size >= sizeof(struct fact_tcp))
		return identity((const void *)h, strings, e);
	if (h->kind == FACT_TCP_LOOK && h->size >= sizeof(struct fact_tcp_look))
		return look((const void *)h, e);
	return -EINVAL;
}
