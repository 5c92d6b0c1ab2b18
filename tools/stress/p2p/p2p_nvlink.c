/* SPDX-License-Identifier: Apache-2.0
 *
 * p2p_nvlink.c - what NVML says of a GPU's NVLinks: how many it has, how many are active, and where they lead: to a
 * switch, through which each pair has all of them, or straight to other GPUs, a part to each.
 */
#include <stdio.h>
#include <string.h>

#include "tools/stress/p2p/p2p.h"

#define LINKS_MAX 36

enum { LEADS_TO_SWITCH = -1, LEADS_ELSEWHERE = -2, LEADS_UNKNOWN = -3 }; /* else the index of a GPU */

static int gpu_at(const struct p2p *p, const struct nvml_pci *pci)
{
	unsigned int domain, bus, device;

	for (int i = 0; i < p->run->n_gpus; i++)
		if (sscanf(p->run->gpus[i].pci, "%x:%x:%x", &domain, &bus, &device) == 3 && domain == pci->domain &&
		    bus == pci->bus && device == pci->device)
			return i;
	return LEADS_ELSEWHERE; /* a GPU that is not under test */
}

static int link_leads_to(const struct p2p *p, void *device, unsigned int link)
{
	const struct nvml *nvml = &p->run->nvml;
	struct nvml_pci pci;
	int type;

	if (!nvml->link_type || nvml->link_type(device, link, &type))
		return LEADS_UNKNOWN;
	if (type == NVML_NVLINK_TO_SWITCH)
		return LEADS_TO_SWITCH;
	if (type == NVML_NVLINK_TO_CPU)
		return LEADS_ELSEWHERE;
	memset(&pci, 0, sizeof(pci));
	return type == NVML_NVLINK_TO_GPU && nvml->link_pci && !nvml->link_pci(device, link, &pci) ? gpu_at(p, &pci)
												   : LEADS_UNKNOWN;
}

static int fabric_state(const struct p2p *p, void *device)
{
	const struct nvml *nvml = &p->run->nvml;
	struct nvml_fabric fabric;

	memset(&fabric, 0, sizeof(fabric));
	return nvml->fabric && !nvml->fabric(device, &fabric) ? fabric.state : NVML_FABRIC_NOT_SUPPORTED;
}

void p2p_nvlinks_read(struct p2p *p, int i)
{
	const struct nvml *nvml = &p->run->nvml;
	void *device = p->run->gpus[i].nvml;
	struct p2p_gpu *g = &p->gpus[i];
	int active;

	g->links = g->links_active = g->links_switch = g->links_unknown = 0;
	memset(g->links_to, 0, sizeof(g->links_to));
	g->fabric = fabric_state(p, device);
	for (unsigned int link = 0; nvml->link_state && link < LINKS_MAX; link++) {
		int to;

		if (nvml->link_state(device, link, &active))
			break;
		g->links++;
		g->links_active += active != 0;
		to = active ? link_leads_to(p, device, link) : LEADS_ELSEWHERE;
		g->links_switch += to == LEADS_TO_SWITCH;
		g->links_unknown += to == LEADS_UNKNOWN;
		if (to >= 0)
			g->links_to[to]++;
	}
}

/* A GPU whose links are all down is on the board of the others of its kind. */
static bool is_on_switch(const struct p2p *p, int gpu)
{
	for (int i = 0; i < p->run->n_gpus; i++)
		if (p->run->gpus[i].class == p->run->gpus[gpu].class && p->gpus[i].links_switch)
			return true;
	return false;
}

int p2p_nvlinks_between(const struct p2p *p, int from, int to)
{
	if (is_on_switch(p, from) && is_on_switch(p, to))
		return p->gpus[to].links ? p->gpus[from].links : 0;
	return p->gpus[from].links_to[to];
}
