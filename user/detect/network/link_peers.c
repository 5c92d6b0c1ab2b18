/* SPDX-License-Identifier: Apache-2.0
 *
 * link_peers.c - see link_peers.h.
 */
#include "detect/network/link_peers.h"

#include <string.h>

#include "model/node.h"

#define PEERS_FASTER 2 /* as many ports of this kind at least, and more than half of them */

bool link_is_up(const struct port_sample *l)
{
	return !port_is(l, PORT_GONE) && l->now.state == PORT_STATE_ACTIVE &&
	       (port_is(l, PORT_CARRIER) || !port_is(l, PORT_CARRIER_KNOWN));
}

bool link_is_alike(const struct port *a, const struct port *b)
{
	return *a->kind && !strcmp(a->kind, b->kind) && !strcmp(a->layer, b->layer);
}

uint32_t link_peers_rate(const struct port *p, uint32_t mine)
{
	uint32_t n = 0, n_faster = 0, rate = 0;

	for (const struct port *o = p->node->ports; o; o = o->next) {
		const struct port_sample *l = port_sample(o, 0);

		if (!l || !link_is_up(l) || l->now.rate_mbps == PORT_NO_VALUE || !link_is_alike(o, p))
			continue;
		n++;
		n_faster += l->now.rate_mbps > mine;
		if (l->now.rate_mbps > mine && (!rate || l->now.rate_mbps < rate))
			rate = l->now.rate_mbps;
	}
	return n_faster >= PEERS_FASTER && 2 * n_faster > n ? rate : 0;
}
