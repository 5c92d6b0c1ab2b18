// SPDX-License-Identifier: Apache-2.0
/* When this process' GPU computes, told to whoever reads SIM_GPU_STATE: the stand-in for NVML. */
#include "tools/simjob/libnvml/gpu_state.h"
#include "tools/simjob/libcuda/device.h"

static pthread_mutex_t usage_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_gpu *_Atomic usage_gpu;

void usage_open(int device, int nr_devices)
{
	struct sim_gpus *all = usage_gpu || device >= SIM_GPUS_MAX ? NULL : sim_gpus_map();

	if (!all)
		return;
	all->nr_gpus = nr_devices < SIM_GPUS_MAX ? nr_devices : SIM_GPUS_MAX;
	all->gpus[device].pid = getpid();
	usage_gpu = &all->gpus[device];
}

/* Kernels back to back are one span. */
void usage_note(uint64_t begin_ns, uint64_t end_ns)
{
	struct sim_gpu *gpu = usage_gpu;
	struct sim_gpu_span *span;
	uint64_t n;

	if (!gpu || end_ns <= begin_ns)
		return;
	pthread_mutex_lock(&usage_lock);
	n = gpu->nr_spans;
	span = n ? &gpu->spans[(n - 1) % SIM_GPU_SPANS] : NULL;
	if (span && span->end_ns == begin_ns) {
		span->end_ns = end_ns;
	} else {
		span = &gpu->spans[n % SIM_GPU_SPANS];
		span->begin_ns = begin_ns;
		span->end_ns = end_ns;
		gpu->nr_spans = n + 1;
	}
	pthread_mutex_unlock(&usage_lock);
}
