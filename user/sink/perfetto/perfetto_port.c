/* SPDX-License-Identifier: Apache-2.0
 *
 * perfetto_port.c - counters of each port of an RDMA device: bytes a second each way, whether it is up, and what goes
 * wrong, so far as its provider counts it. Errors are drawn as totals since the session began, and from the first one
 * on.
 */
#include <stdio.h>

#include "sink/perfetto/perfetto.h"

#define INDEX_FIRST 0x10000u /* among the machine's parts, behind the GPUs */

static uint64_t part_of(const struct port *p)
{
	return proc_key(p->node->number, INDEX_FIRST + p->id.index);
}

static const struct port *port_by_index(const struct node *n, uint32_t index)
{
	const struct port *p = n ? n->ports : NULL;

	while (p && p->id.index != index)
		p = p->next;
	return p;
}

static void rate_draw(struct perfetto_sink *s, const struct port *p, const char *group, enum port_counter counter,
		      const char *name)
{
	const struct port_sample *now = port_sample(p, 0), *before = port_sample(p, 1);

	if (!before || now->now.taken_ns <= before->now.taken_ns || now->counters[counter] == PORT_NOT_COUNTED)
		return;
	machine_counter_draw(
		s, part_of(p), group, name, now->ts_ns,
		(int64_t)(port_grown(now, before, counter) * 1e9 / (now->now.taken_ns - before->now.taken_ns)));
}

static void errors_draw(struct perfetto_sink *s, const struct port *p, const char *group)
{
	const struct port_sample *now = port_sample(p, 0), *before = port_sample(p, 1);

	for (int c = PORT_SYMBOL_ERRORS; before && c < PORT_COUNTERS; c++)
		if (port_grown(now, before, c)) {
			machine_counter_draw(s, part_of(p), group, port_counter_name(c), before->ts_ns,
					     (int64_t)port_grown(before, &p->first, c));
			machine_counter_draw(s, part_of(p), group, port_counter_name(c), now->ts_ns,
					     (int64_t)port_grown(now, &p->first, c));
		}
}

void port_event_draw(struct perfetto_sink *s, const struct event *e, const struct model *m)
{
	const struct port *p = port_by_index(model_node(m, e->node), e->port.index);
	char group[128];

	if (!p || !p->n_samples)
		return;
	snprintf(group, sizeof(group), "%s port %u%s%s", *p->device ? p->device : "RDMA device", p->id.number,
		 *p->netdev ? " · " : "", p->netdev);
	rate_draw(s, p, group, PORT_SENT_BYTES, "sent bytes/s");
	rate_draw(s, p, group, PORT_RECEIVED_BYTES, "received bytes/s");
	machine_counter_draw(s, part_of(p), group, "up", e->ts_ns,
			     !port_is(port_sample(p, 0), PORT_GONE) &&
				     port_sample(p, 0)->now.state == PORT_STATE_ACTIVE);
	errors_draw(s, p, group);
}
