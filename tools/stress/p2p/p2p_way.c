/* SPDX-License-Identifier: Apache-2.0
 *
 * p2p_way.c - what two GPUs communicate over, as far as the host shows it: NVLinks, one PCIe switch, or how far their
 * memory nodes are apart. Links over different ways have different rates on a healthy host: over the link between two
 * sockets half of what a switch gives, or less.
 */
#include "tools/stress/lib/node.h"
#include "tools/stress/lib/pci.h"
#include "tools/stress/p2p/p2p.h"

/* A guest with one node does not say what is below it; the machine itself with one has one distance. */
static int way_over_pci(const struct p2p *p, int from, int to)
{
	const struct p2p_gpu *a = &p->gpus[from], *b = &p->gpus[to];
	char bridges[2][PATH_MAX];
	int distance = NODE_UNKNOWN;

	if (!pci_bridges_at(p->run->gpus[from].pci, bridges[0]) || !pci_bridges_at(p->run->gpus[to].pci, bridges[1]) ||
	    !pci_has_port(bridges[0]) || !pci_has_port(bridges[1]))
		return WAY_UNKNOWN;
	if (pci_is_switched(bridges[0], bridges[1]))
		return WAY_SWITCH;
	if (p->n_nodes == 1)
		return p->is_virtual ? WAY_UNKNOWN : NODE_OWN;
	if (a->node >= 0 && b->node >= 0)
		distance = node_distance(sysfs_root(), a->node, b->node);
	return distance < NODE_UNKNOWN ? distance : WAY_UNKNOWN;
}

void p2p_ways_find(struct p2p *p)
{
	for (int i = 0; i < p->run->n_gpus; i++)
		for (int j = 0; j < p->run->n_gpus; j++)
			p->links[i][j].way = i == j ? WAY_UNKNOWN : way_over_pci(p, i, j);
}

/* Where NVML does not say where NVLinks lead, they may lead to each other. */
int p2p_way(const struct p2p *p, int from, int to)
{
	bool may = p->gpus[from].links_unknown && p->gpus[to].links_unknown;

	return may || p2p_nvlinks_between(p, from, to) ? WAY_NVLINK : p->links[from][to].way;
}
