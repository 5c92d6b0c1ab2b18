// SPDX-License-Identifier: Apache-2.0
/*
 * With SIM_CUDA_COMPUTE=1 device memory has contents and kernels that are known by name are done in C, in their turn on
 * the stream's thread; what time they take is modelled all the same. Faults of the hardware, from the environment:
 *     SIM_GPU_SLOW=1:30           device 1 takes 30 % longer
 *     SIM_GPU_LOSE=1:200          device 1 is lost after 200 launches
 *     SIM_GPU_BAD_BIT=0:4096:3  bit 3 of byte 4096 of what a pattern was written to on device 0 reads inverted
 */
#include "tools/simjob/libcuda/compute.h"
#include "tools/simjob/libcuda/slow_while.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 256
#define DEVICE_LOST 719
#define SET_NS 2000

bool compute_is_on(void)
{
	static int on = -1;

	if (on < 0)
		on = !strcmp(sim_setting("SIM_CUDA_COMPUTE", "0"), "1");
	return on;
}

SIM_EXPORT int sim_device_current(void)
{
	return context_current() ? context_current()->device : 0;
}

/* "device:value" of a setting, if it is about the current device; else 0. */
static unsigned long setting_of_device(const char *name)
{
	const char *setting = getenv(name);
	unsigned long value;
	int device;

	return setting && sscanf(setting, "%d:%lu", &device, &value) == 2 && device == sim_device_current() ? value : 0;
}

CUresult compute_lost(void)
{
	static _Atomic unsigned long calls[DEVICES_MAX];
	unsigned long most = setting_of_device("SIM_GPU_LOSE");

	return most && calls[sim_device_current()]++ > most ? DEVICE_LOST : CUDA_SUCCESS;
}

SIM_EXPORT CUresult sim_compute_launch(CUstream handle, void (*run)(void *arg), void *arg, uint64_t duration_ns)
{
	struct CUstream_st *stream = stream_resolve(handle);
	struct sim_work work = { .kind = WORK_COMPUTE, .host_fn = run, .arg = arg };
	CUresult res = compute_lost();
	unsigned long percent;

	if (res)
		return res;
	percent = setting_of_device("SIM_GPU_SLOW");
	work.duration_ns = percent && slow_now() ? duration_ns + duration_ns * percent / 100 : duration_ns;
	return stream ? stream_enqueue(stream, &work) : CUDA_ERROR_OUT_OF_MEMORY;
}

/* --- kernels --- */

static const struct compute_kernel kernels[] = {
#define KERNEL(id, sizes, ns_per_word) { #id, sizes, id, ns_per_word },
	COMPUTE_KERNELS(KERNEL)
#undef KERNEL
};

const struct compute_kernel *compute_kernel_find(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		if (!strcmp(kernels[i].name, name))
			return &kernels[i];
	}
	return NULL;
}

struct launch {
	const struct compute_kernel *kernel;
	int device;
	uint64_t params[COMPUTE_PARAMS_MAX];
};

static void bad_bit(const struct launch *launch)
{
	const char *setting = getenv("SIM_GPU_BAD_BIT");
	unsigned long byte;
	int device, bit;

	if (setting && sscanf(setting, "%d:%lu:%d", &device, &byte, &bit) == 3 && device == launch->device &&
	    byte < 8 * launch->params[1])
		((unsigned char *)(uintptr_t)launch->params[0])[byte] ^= 1 << bit;
}

static void launch_run(void *arg)
{
	struct launch *launch = arg;

	launch->kernel->run(launch->params);
	peer_spoil(launch->kernel, launch->params);
	if (launch->kernel->run == stress_mem_write)
		bad_bit(launch);
	free(launch);
}

/* It ends when the host says so: what is behind it begins then, however late it was enqueued. */
static CUresult held_launch(CUstream handle, struct launch *launch)
{
	struct CUstream_st *stream = stream_resolve(handle);
	struct sim_work work = { .kind = WORK_HOST_FUNC, .host_fn = launch_run, .arg = launch };

	return stream ? stream_enqueue(stream, &work) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult compute_kernel_launch(const struct compute_kernel *kernel, CUstream stream, void **params)
{
	struct launch *launch = calloc(1, sizeof(*launch));
	const char *size = kernel->sizes;
	CUresult res;
	int i;

	if (!launch)
		return CUDA_ERROR_OUT_OF_MEMORY;
	launch->kernel = kernel;
	launch->device = sim_device_current();
	for (i = 0; size[i]; i++)
		memcpy(&launch->params[i], params[i], size[i] - '0');
	if (kernel->run == stress_spin)
		res = held_launch(stream, launch);
	else
		res = sim_compute_launch(stream, launch_run, launch,
					 COMPUTE_LAUNCH_NS + kernel->ns_per_word * launch->params[1] +
						 peer_kernel_ns(kernel, launch->params));
	if (res)
		free(launch);
	return res;
}

/* --- sets --- */

struct set {
	uint32_t *to, value;
	size_t count;
};

static void set_run(void *arg)
{
	struct set *set = arg;
	size_t i;

	for (i = 0; i < set->count; i++)
		set->to[i] = set->value;
	free(set);
}

CUresult compute_set_words(CUdeviceptr to, unsigned int value, size_t count, CUstream stream)
{
	struct set *set = malloc(sizeof(*set));
	CUresult res;

	if (!set)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*set = (struct set){ (uint32_t *)(uintptr_t)to, value, count };
	res = sim_compute_launch(stream, set_run, set, SET_NS);
	if (res)
		free(set);
	return res;
}
