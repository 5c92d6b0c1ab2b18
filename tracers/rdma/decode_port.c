/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_port.c - see decode_port.h.
 */
#include "tracers/rdma/decode_port.h"

#include <errno.h>

#include "schemas/facts.h"

static int identity(const struct fact_port *f, struct intern *strings, struct event *e)
{
	const uint16_t lens[] = { f->device_len, f->netdev_len, f->pci_len, f->kind_len, f->layer_len };
	const char **texts[] = { &e->port.id.device, &e->port.id.netdev, &e->port.id.pci, &e->port.id.kind,
				 &e->port.id.layer };
	size_t at = sizeof(*f);

	e->kind = EV_PORT;
	e->port.index = f->index;
	e->port.id.number = f->number;
	e->port.id.numa_node = f->numa_node;
	for (int i = 0; i < 5; at += lens[i++]) {
		*texts[i] = at + lens[i] <= f->hdr.size ? intern_bytes(strings, (const char *)f + at, lens[i]) : NULL;
		if (!*texts[i])
			return -EINVAL;
	}
	return 1;
}

static int look(const struct fact_port_look *f, struct event *e)
{
	if (f->n_counters * sizeof(f->counters[0]) > f->hdr.size - sizeof(*f))
		return -EINVAL;
	e->kind = EV_PORT_LOOK;
	e->port.index = f->index;
	e->port.look.taken_ns = f->taken_ns;
	e->port.look.state = f->state;
	e->port.look.phys_state = f->phys_state;
	e->port.look.gone = f->flags & PORT_GONE;
	e->port.look.silent = f->flags & PORT_SILENT;
	e->port.look.carrier_known = f->flags & PORT_CARRIER_KNOWN;
	e->port.look.carrier = f->flags & PORT_CARRIER;
	e->port.look.rate_mbps = f->rate_mbps;
	e->port.look.lanes = f->lanes;
	e->port.look.netdev_mbps = f->netdev_mbps;
	e->port.look.cost_us = f->cost_us;
	e->port.look.n_counters = f->n_counters < PORT_COUNTERS ? f->n_counters : PORT_COUNTERS;
	e->port.look.counters = (const uint64_t *)f->counters;
	return 1;
}

static int users(const struct fact_port_users *f, struct event *e)
{
	e->kind = EV_PORT_USERS;
	e->port.index = f->index;
	e->port.users.known = f->known;
	e->port.users.n = f->n < PORT_USERS_MAX ? f->n : PORT_USERS_MAX;
	e->port.users.pids = f->pids;
	return 1;
}

int decode_port_fact(const struct wire_hdr *h, struct intern *strings, struct event *e)
{
	if (h->kind == FACT_PORT && h->size >= sizeof(struct fact_port))
		return identity((const void *)h, strings, e);
	if (h->kind == FACT_PORT_LOOK && h->size >= sizeof(struct fact_port_look))
		return look((const void *)h, e);
	if (h->kind == FACT_PORT_USERS && h->size >= sizeof(struct fact_port_users))
		return users((const void *)h, e);
	return -EINVAL;
}
