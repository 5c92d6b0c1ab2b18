/* SPDX-License-Identifier: Apache-2.0
 *
 * ports_records.c - ports of RDMA devices: which one it is, how it stands and counts, who has it open.
 */
#include "record.h"
#include "schemas/collector.h"

static int id_texts(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct port_id *id = &e->port.id;
	const uint16_t lens[] = { id->device_len, id->netdev_len, id->pci_len, id->kind_len, id->layer_len };
	const char **const texts[] = { &e->port.device, &e->port.netdev, &e->port.pci, &e->port.kind, &e->port.layer };

	return record_texts(rec, sizeof(struct record_port), 5, lens, texts, strings);
}

static int sample_counters(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_port_sample *r = (const void *)rec;

	(void)strings;
	if (r->body.n_counters * sizeof(r->counters[0]) > rec->size - sizeof(*r))
		return -EINVAL;
	if (e->port.sample.n_counters > PORT_COUNTERS)
		e->port.sample.n_counters = PORT_COUNTERS;
	e->port.counters = r->counters;
	return 1;
}

static int users_check(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	(void)rec;
	(void)strings;
	e->port.users.n = e->port.users.n < PORT_USERS_MAX ? e->port.users.n : PORT_USERS_MAX;
	return 1;
}

#define PORT(id, event, member) \
	RECORD_AS_EVENT(event, member), .tracer = WIRE_COLLECTOR, .kind = id, .kept_by = sizeof(struct wire_hdr)
const struct record_kind source_records_ports[] = {
	{ "port", PORT(RECORD_PORT, EV_PORT, port.id), .decode = id_texts },
	{ "port_sample", PORT(RECORD_PORT_SAMPLE, EV_PORT_SAMPLE, port.sample),
	  .times = { offsetof(struct record_port_sample, body.taken_ns) }, .decode = sample_counters },
	{ "port_users", PORT(RECORD_PORT_USERS, EV_PORT_USERS, port.users), .decode = users_check },
	{}
};
