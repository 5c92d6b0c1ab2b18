/* SPDX-License-Identifier: Apache-2.0
 *
 * parts.h - what the parts of the stand-in for libnvidia-ml.so.1 share.
 */
#ifndef SIM_LIBNVML_PARTS_H
#define SIM_LIBNVML_PARTS_H

#include <stdint.h>

#include "tools/simjob/libnvml/gpu_state.h"

#define SUCCESS 0
#define UNINITIALIZED 1
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define EXPORT __attribute__((visibility("default")))

struct pci_info {
	char bus_id_legacy[16];
	unsigned int domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
};

extern const struct sim_gpus *all;

uint64_t now_ns(void); /* CLOCK_MONOTONIC */
unsigned int index_of(const struct sim_gpu *gpu);
/* A driver that has stalled has stalled for everybody. What every call about a GPU begins with: what NVML returns. */
int check(const struct sim_gpu *gpu);
/* How many have come since the fault struck, at that many a second. */
unsigned long long count_since(const struct sim_gpu *gpu, unsigned int fault, double per_s);

#endif
