/* SPDX-License-Identifier: Apache-2.0
 *
 * apart.c - how far each memory of a host is from a port (enum rdma_apart): of memory nodes the kernel's distance; of a
 * GPU whether the way to it leaves the PCIe switch that the port's adapter is behind. NVIDIA's GPUDirect RDMA pages say
 * the same of three ways: best over switches alone, worse over one CPU, and worst over the link between two; perftest's
 * issue 241 has half of the rate over that.
 */
#include <limits.h>
#include <stdio.h>

#include "tools/stress/lib/node.h"
#include "tools/stress/lib/pci.h"
#include "tools/stress/verbs/host.h"

static int gpu_apart(const struct rdma_host *host, const struct rdma_port *p, int ordinal)
{
	const struct stress_gpu *gpu = host_gpu(host, ordinal);
	char adapter[PATH_MAX], bridges[PATH_MAX], below[128];

	snprintf(below, sizeof(below), "class/infiniband/%s/device", p->device);
	if (!gpu || !pci_bridges(below, adapter) || !pci_bridges_at(gpu->pci, bridges))
		return APART_GPU_FAR;
	return pci_is_switched(adapter, bridges) ? APART_GPU_NEAR : APART_GPU_FAR;
}

static int node_apart(const struct rdma_host *host, const struct rdma_port *p, int node)
{
	bool is_one = host->n_places == 1 || host->places[1].gpu >= 0; /* nodes come first */

	if (is_one || node < 0)
		return NODE_OWN;
	return node_distance(sysfs_root(), p->node, node);
}

void places_measure(struct rdma_host *host)
{
	for (int i = 0; i < host->n_ports; i++)
		for (int j = 0; j < host->n_places; j++) {
			const struct rdma_place *place = &host->places[j];
			struct rdma_port *p = &host->ports[i];

			p->apart[j] =
				place->gpu >= 0 ? gpu_apart(host, p, place->gpu) : node_apart(host, p, place->number);
		}
}
