// SPDX-License-Identifier: Apache-2.0
/*
 * NVLinks of the stand-in for libnvidia-ml.so.1: how many, where they lead, which are down, and the fabric's state.
 */
#include "tools/simjob/libnvml/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* NVML's own header would declare them */

#define CRC_FLIT 2
#define NR_LINKS 18
#define TO_GPU 0
#define TO_SWITCH 2

static unsigned int nr_links(void)
{
	const char *text = getenv("SIM_NVLINKS");

	return text ? (unsigned int)atoi(text) : NR_LINKS;
}

EXPORT int nvmlDeviceGetNvLinkState(struct sim_gpu *gpu, unsigned int link, int *ret_active)
{
	if (link >= nr_links())
		return INVALID_ARGUMENT;
	/* from that GPU on */
	*ret_active =
		!(getenv("SIM_NVLINKS_DOWN") && index_of(gpu) >= (unsigned int)atoi(getenv("SIM_NVLINKS_DOWN"))) &&
		!(gpu->faults & SIM_GPU_NVLINK_DOWN && link == 3);
	return check(gpu);
}

/* SIM_NVLINK_ENDS: they lead to a "switch", which is the default; to the other "gpus", as many to each; or "unknown".
 */
static int ends_are(const char *what)
{
	const char *text = getenv("SIM_NVLINK_ENDS");

	return !strcmp(text ? text : "switch", what);
}

EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(struct sim_gpu *gpu, unsigned int link, int *ret_type)
{
	if (link >= nr_links())
		return INVALID_ARGUMENT;
	if (ends_are("unknown"))
		return NOT_SUPPORTED;
	*ret_type = ends_are("gpus") ? TO_GPU : TO_SWITCH;
	return check(gpu);
}

EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct sim_gpu *gpu, unsigned int link, struct pci_info *ret_pci)
{
	unsigned int each = all->nr_gpus > 1 ? nr_links() / (all->nr_gpus - 1) : 0, peer = each ? link / each : 0;

	if (link >= nr_links() || ends_are("unknown") || (ends_are("gpus") && peer >= all->nr_gpus - 1))
		return NOT_SUPPORTED;
	memset(ret_pci, 0, sizeof(*ret_pci));
	ret_pci->bus = ends_are("gpus") ? 0x10 + peer + (peer >= index_of(gpu)) : 0x80 + link / 3;
	snprintf(ret_pci->bus_id, sizeof(ret_pci->bus_id), "00000000:%02X:00.0", ret_pci->bus);
	return check(gpu);
}

EXPORT int nvmlDeviceGetGpuFabricInfo(struct sim_gpu *gpu, unsigned char *ret_fabric)
{
	ret_fabric[24] = getenv("SIM_FABRIC") ? atoi(getenv("SIM_FABRIC")) : 0; /* the state */
	return check(gpu);
}

EXPORT int nvmlDeviceGetNvLinkErrorCounter(struct sim_gpu *gpu, unsigned int link, int counter,
					   unsigned long long *ret_n)
{
	if (link >= nr_links())
		return INVALID_ARGUMENT;
	*ret_n = link == 5 && counter != 1 ? count_since(gpu, SIM_GPU_NVLINK, 100) : 0;
	if (counter == CRC_FLIT) /* corrected on the way: healthy links under load count them too */
		*ret_n += now_ns() / 100000000;
	return check(gpu);
}
