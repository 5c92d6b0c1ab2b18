// SPDX-License-Identifier: Apache-2.0
/* When this process' GPU computes, for the readers of SIM_GPU_STATE: the stand-in for NVML. */
#include "tools/simjob/libnvml/gpu_state.h"
#include "tools/simjob/libcuda/device.h"

static pthread_mutex_t usage_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_gpu *_Atomic usage_gpu;
static _Thread_local struct sim_gpu *usage_gpu_of_thread;

void usage_open(int device, int nr_devices)
{
	struct sim_gpus *all = usage_gpu || device >= SIM_GPUS_MAX ? NULL : sim_gpus_map();

	if (!all)
		return;
	all->nr_gpus = nr_devices < SIM_GPUS_MAX ? nr_devices : SIM_GPUS_MAX;
	usage_gpu = &all->gpus[device];
	/* What ran there before ended with its process. */
	usage_gpu->load = 0;
	usage_gpu->compute.nr = 0;
	usage_gpu->nccl.nr = 0;
	usage_gpu->pid = getpid();
}

void usage_of(int device)
{
	struct sim_gpus *all = atoi(sim_setting("SIM_GPU_HEAT", "0")) && device < SIM_GPUS_MAX ? sim_gpus_map() : NULL;

	if (all)
		usage_gpu_of_thread = &all->gpus[device];
}

static struct sim_gpu_span *span_add(struct sim_gpu_spans *to, uint64_t begin_ns, uint64_t end_ns)
{
	struct sim_gpu_span *span = &to->spans[to->nr % SIM_GPU_SPANS];

	span->begin_ns = begin_ns;
	span->end_ns = end_ns;
	atomic_fetch_add(&to->nr, 1);
	return span;
}

/* Kernels back to back are one span. */
void usage_note(uint64_t begin_ns, uint64_t end_ns)
{
	struct sim_gpu *gpu = usage_gpu_of_thread ? usage_gpu_of_thread : usage_gpu;
	struct sim_gpu_span *span;

	if (!gpu || end_ns <= begin_ns)
		return;
	pthread_mutex_lock(&usage_lock);
	span = gpu->compute.nr ? &gpu->compute.spans[(gpu->compute.nr - 1) % SIM_GPU_SPANS] : NULL;
	if (span && span->end_ns == begin_ns)
		span->end_ns = end_ns;
	else
		span_add(&gpu->compute, begin_ns, end_ns);
	pthread_mutex_unlock(&usage_lock);
}

struct sim_gpu_span *usage_nccl_begin(uint64_t begin_ns)
{
	struct sim_gpu *gpu = usage_gpu;
	struct sim_gpu_span *span;

	if (!gpu)
		return NULL;
	pthread_mutex_lock(&usage_lock);
	span = span_add(&gpu->nccl, begin_ns, UINT64_MAX);
	pthread_mutex_unlock(&usage_lock);
	return span;
}

void usage_nccl_end(struct sim_gpu_span *span, uint64_t end_ns)
{
	if (span)
		span->end_ns = end_ns;
}
