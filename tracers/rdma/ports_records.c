/* SPDX-License-Identifier: Apache-2.0
 *
 * ports_records.c - ports of RDMA devices: which one it is, how it stands and counts, who has it open.
 */
#include "record.h"
#include "schemas/collector.h"

static int identity(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_port *f = (const void *)rec;
	const uint16_t lens[] = { f->device_len, f->netdev_len, f->pci_len, f->kind_len, f->layer_len };
	const char **const texts[] = { &e->port.id.device, &e->port.id.netdev, &e->port.id.pci, &e->port.id.kind,
				       &e->port.id.layer };

	e->kind = EV_PORT;
	e->port.index = f->index;
	e->port.id.number = f->number;
	e->port.id.numa_node = f->numa_node;
	return record_texts(rec, sizeof(*f), 5, lens, texts, strings);
}

static int sample(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_port_sample *f = (const void *)rec;

	(void)strings;
	if (f->n_counters * sizeof(f->counters[0]) > f->hdr.size - sizeof(*f))
		return -EINVAL;
	e->kind = EV_PORT_SAMPLE;
	e->port.index = f->index;
	e->port.sample.taken_ns = f->taken_ns;
	e->port.sample.state = f->state;
	e->port.sample.phys_state = f->phys_state;
	e->port.sample.gone = f->flags & PORT_GONE;
	e->port.sample.silent = f->flags & PORT_SILENT;
	e->port.sample.carrier_known = f->flags & PORT_CARRIER_KNOWN;
	e->port.sample.carrier = f->flags & PORT_CARRIER;
	e->port.sample.rate_mbps = f->rate_mbps;
	e->port.sample.lanes = f->lanes;
	e->port.sample.netdev_mbps = f->netdev_mbps;
	e->port.sample.cost_us = f->cost_us;
	e->port.sample.n_counters = f->n_counters < PORT_COUNTERS ? f->n_counters : PORT_COUNTERS;
	e->port.sample.counters = (const uint64_t *)f->counters;
	return 1;
}

static int users(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_port_users *f = (const void *)rec;

	(void)strings;
	e->kind = EV_PORT_USERS;
	e->port.index = f->index;
	e->port.users.known = f->known;
	e->port.users.n = f->n < PORT_USERS_MAX ? f->n : PORT_USERS_MAX;
	e->port.users.pids = f->pids;
	return 1;
}

#define COLLECTOR(id) .tracer = WIRE_COLLECTOR, .kind = id
const struct record_kind source_records_ports[] = {
	{ "port", COLLECTOR(RECORD_PORT), .size = sizeof(struct record_port),
	  .kept_by = offsetof(struct record_port, index), .decode = identity },
	{ "port_sample", COLLECTOR(RECORD_PORT_SAMPLE), .size = sizeof(struct record_port_sample),
	  .kept_by = offsetof(struct record_port_sample, index),
	  .times = { offsetof(struct record_port_sample, taken_ns) }, .decode = sample },
	{ "port_users", COLLECTOR(RECORD_PORT_USERS), .size = sizeof(struct record_port_users),
	  .kept_by = offsetof(struct record_port_users, index), .decode = users },
	{}
};
