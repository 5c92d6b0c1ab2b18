/* SPDX-License-Identifier: Apache-2.0
 *
 * shape.c - see shape.h.
 */
#include "tools/stress/rdma/shape.h"

static int hosts_count(const struct shape_port *ports, int n)
{
	int most = -1;

	for (int i = 0; i < n; i++)
		most = ports[i].host > most ? ports[i].host : most;
	return most + 1;
}

/* How many of its host's ports stand before it. */
static int place_on_host(const struct shape_port *ports, int i)
{
	int place = 0;

	for (int j = 0; j < i; j++)
		place += ports[j].host == ports[i].host;
	return place;
}

static int ended(int n_links, bool over)
{
	return over ? 0 : n_links ? n_links : -1;
}

/* One port of each host at a time. */
static int loopback(const struct shape_port *ports, int n, int round, struct shape_link *links)
{
	int n_links = 0;

	for (int i = 0; i < n; i++)
		if (place_on_host(ports, i) == round)
			links[n_links++] = (struct shape_link){ ports[i].index, ports[i].index };
	return ended(n_links, !n_links);
}

/* One host: each ordered pair for itself. Between separate networks there is no way that does not leave the host by a
 * router, which verbs' addresses do not take. */
static int inside(const struct shape_port *ports, int n, int round, struct shape_link *links)
{
	int from = n ? round / n : 0, to = n ? round % n : 0;

	if (from >= n || n < 2)
		return 0;
	links[0] = (struct shape_link){ ports[from].index, ports[to].index };
	return from == to || ports[from].network < 0 || ports[from].network != ports[to].network ? -1 : 1;
}

/* Several hosts: host h to host h + round + 1, all rails at once: each port sends to one and hears from one. */
static int rails(const struct shape_port *ports, int n, int hosts, int round, struct shape_link *links)
{
	int n_links = 0;

	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
			if (ports[j].name == ports[i].name && ports[j].host == (ports[i].host + round + 1) % hosts)
				links[n_links++] = (struct shape_link){ ports[i].index, ports[j].index };
	return ended(n_links, round + 1 >= hosts);
}

static bool is_before(const struct shape_port *a, const struct shape_port *b)
{
	if (a->layer != b->layer)
		return a->layer < b->layer;
	return a->name != b->name ? a->name < b->name : a->host < b->host;
}

/* By name, then by host: neighbours are the same port of two hosts; of one host alone two of its ports. */
static int ordered(const struct shape_port *ports, int n, int *order)
{
	for (int i = 0; i < n; i++) {
		int place = 0;

		for (int j = 0; j < n; j++)
			place += is_before(&ports[j], &ports[i]) || (j < i && !is_before(&ports[i], &ports[j]));
		order[place] = ports[i].index;
	}
	return n;
}

static int pairs(const struct shape_port *ports, int n, int round, struct shape_link *links)
{
	int order[RDMA_PORTS_MAX] = { 0 }, n_links = 0;

	ordered(ports, n, order);
	for (int i = 0; i + 1 < n; i += 2)
		links[n_links++] = (struct shape_link){ order[i + round % 2], order[i + 1 - round % 2] };
	return ended(n_links, round > 1 || n < 2);
}

/* Round r: each to the one r + 1 further on. The ring is round 0. */
static int turns(const struct shape_port *ports, int n, int round, struct shape_link *links)
{
	int order[RDMA_PORTS_MAX] = { 0 };

	if (round + 1 >= n)
		return 0;
	ordered(ports, n, order);
	for (int i = 0; i < n; i++)
		links[i] = (struct shape_link){ order[i], order[(i + round + 1) % n] };
	return n;
}

static int layer_of(const struct shape_port *ports, int n, int index)
{
	int i = 0;

	while (i < n - 1 && ports[i].index != index)
		i++;
	return ports[i].layer;
}

/* Without links between two link layers. */
static int layers_keep(const struct shape_port *ports, int n, struct shape_link *links, int n_links)
{
	int kept = 0;

	for (int i = 0; i < n_links; i++)
		if (layer_of(ports, n, links[i].from) == layer_of(ports, n, links[i].to))
			links[kept++] = links[i];
	return n_links > 0 && !kept ? -1 : n_links > 0 ? kept : n_links;
}

static int round_make(enum rdma_shape shape, const struct shape_port *ports, int n, int round, struct shape_link *links)
{
	int hosts = hosts_count(ports, n);

	switch (shape) {
	case SHAPE_LOOPBACK: return loopback(ports, n, round, links);
	case SHAPE_NIC_TO_NIC: return hosts > 1 ? rails(ports, n, hosts, round, links) : inside(ports, n, round, links);
	case SHAPE_PAIR: return pairs(ports, n, round, links);
	case SHAPE_RING: return round ? 0 : turns(ports, n, round, links);
	default: return turns(ports, n, round, links);
	}
}

int shape_round(enum rdma_shape shape, const struct shape_port *ports, int n, int round, struct shape_link *links)
{
	return layers_keep(ports, n, links, round_make(shape, ports, n, round, links));
}
