/* SPDX-License-Identifier: Apache-2.0
 *
 * port.c - what sysfs says of the ports of RDMA devices, and which process has which open.
 */
#include <errno.h>
#include <stdlib.h>

#include "model/model.h"

static struct port *port_get(struct node *n, uint32_t index)
{
	struct port **link = &n->ports, *p;

	while (*link && (*link)->id.index < index)
		link = &(*link)->next;
	if (*link && (*link)->id.index == index)
		return *link; /* lint: another one than above */
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->node = n;
	p->id.index = index;
	p->id.numa_node = -1;
	p->device = p->netdev = p->pci = p->kind = p->layer = "";
	p->next = *link;
	*link = p;
	return p;
}

static void id_take(struct port *p, const struct event *e)
{
	p->id = e->port.id;
	p->device = e->port.device;
	p->netdev = e->port.netdev;
	p->pci = e->port.pci;
	p->kind = e->port.kind;
	p->layer = e->port.layer;
}

static void sample_take(struct port *p, const struct event *e)
{
	struct port_sample *l = &p->samples[p->n_samples++ % PORT_SAMPLES_KEPT];

	l->ts_ns = e->ts_ns;
	l->now = e->port.sample;
	for (uint32_t c = 0; c < PORT_COUNTERS; c++)
		l->counters[c] = c < e->port.sample.n_counters ? e->port.counters[c] : PORT_NOT_COUNTED;
	if (p->n_samples == 1)
		p->first = *l;
}

int port_apply(struct model *m, const struct event *e)
{
	struct node *n = node_get(m, e->node);
	struct port *p;

	if (e->port.index >= PORTS_MAX)
		return -EINVAL;
	p = n ? port_get(n, e->port.index) : NULL;
	if (!p)
		return -ENOMEM;
	if (e->kind == EV_PORT)
		id_take(p, e);
	else if (e->kind == EV_PORT_SAMPLE)
		sample_take(p, e);
	else
		p->users = e->port.users;
	return 0;
}

bool port_has_proc(const struct port *port, const struct proc *p)
{
	for (uint32_t i = 0; port->node == p->node && i < port->users.n; i++)
		if (port->users.pids[i] == p->tgid)
			return true;
	return false;
}

uint64_t port_grown(const struct port_sample *now, const struct port_sample *before, enum port_counter counter)
{
	uint64_t a = before->counters[counter], b = now->counters[counter];

	return a != PORT_NOT_COUNTED && b != PORT_NOT_COUNTED && b > a ? b - a : 0;
}

void ports_free(struct node *n)
{
	struct port *p;

	while ((p = n->ports)) {
		n->ports = p->next;
		free(p);
	}
}
