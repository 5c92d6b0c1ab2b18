/* SPDX-License-Identifier: Apache-2.0
 *
 * fabrics.c - separate InfiniBand fabrics keep the subnet prefix that all come with, so that nothing shows it
 * before a link between two of them carries nothing. Where ports fall into groups, each well inside, and nothing gets
 * through between two of these, it is said and no fault.
 */
#include <stdio.h>
#include <string.h>

#include "tools/stress/rdma/rdma_run.h"

#define APART_TEXT \
	"nothing gets through, and each works otherwise: two InfiniBand fabrics, with one subnet prefix? If they are " \
	"one, look at the switches between them"

static const struct rdma_port *port_at(const struct rdma_run *run, int i)
{
	return &run->fleet.ports[i].port;
}

/* Ports of one name on two hosts are a rail: these should reach each other. */
static bool may_be_apart(const struct rdma_run *run, const struct rdma_measured *m)
{
	return port_at(run, m->from)->link_layer == VERBS_LINK_INFINIBAND &&
	       port_at(run, m->to)->link_layer == VERBS_LINK_INFINIBAND && run->names[m->from] != run->names[m->to];
}

static bool is_silent(const struct rdma_measured *m)
{
	return m->result.status == RDMA_HUNG ||
	       (m->result.status == RDMA_FAILED && m->result.completion == VERBS_WC_RETRY_EXCEEDED && !m->small_passes);
}

struct groups {
	int of[RDMA_PORTS_MAX]; /* the group of a port: its first port */
	int size[RDMA_PORTS_MAX];
	bool is_bad[RDMA_PORTS_MAX]; /* a link inside it has failed */
	bool any;                    /* one has more than one port */
};

/* Ports that anything got through between are one group. */
static void groups_join(struct groups *g, int n_ports, int a, int b)
{
	int from = g->of[a] < g->of[b] ? g->of[b] : g->of[a], to = g->of[a] < g->of[b] ? g->of[a] : g->of[b];

	for (int i = 0; i < n_ports; i++)
		if (g->of[i] == from)
			g->of[i] = to;
}

static void groups_find(const struct rdma_run *run, struct groups *g)
{
	memset(g, 0, sizeof(*g));
	for (int i = 0; i < run->fleet.n_ports; i++)
		g->of[i] = i;
	for (int i = 0; i < run->n_measured; i++)
		if (run->measured[i].result.status == RDMA_DONE)
			groups_join(g, run->fleet.n_ports, run->measured[i].from, run->measured[i].to);
	for (int i = 0; i < run->fleet.n_ports; i++)
		g->any |= ++g->size[g->of[i]] > 1;
	for (int i = 0; i < run->n_measured; i++) {
		const struct rdma_measured *m = &run->measured[i];

		if (m->result.status >= RDMA_FAILED && g->of[m->from] == g->of[m->to])
			g->is_bad[g->of[m->from]] = true;
	}
}

/* A port alone shows nothing, beside others like it that work: it is bad, or its fabric is another. Of one host all of
 * whose ports are alone each rail is a fabric; a card of its own has one of its own. */
static bool is_well(const struct rdma_run *run, const struct groups *g, int port)
{
	int group = g->of[port];

	if (g->size[group] > 1)
		return !g->is_bad[group];
	if (run->fleet.n_hosts > 1)
		return false;
	for (int i = 0; i < run->fleet.n_ports && g->any; i++)
		if (i != port && g->size[g->of[i]] > 1 && ports_as_fast(port_at(run, i), port_at(run, port)))
			return false;
	return true;
}

void fabrics_part(struct rdma_run *run)
{
	static struct groups g;

	groups_find(run, &g);
	for (int i = 0; i < run->n_measured; i++) {
		struct rdma_measured *m = &run->measured[i];

		if (g.of[m->from] == g.of[m->to] || !may_be_apart(run, m) || !is_silent(m) ||
		    !is_well(run, &g, m->from) || !is_well(run, &g, m->to))
			continue;
		m->is_excused = true;
		m->result.status = RDMA_ABSENT;
		snprintf(m->result.text, sizeof(m->result.text), "%s", APART_TEXT);
	}
}
