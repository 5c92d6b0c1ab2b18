// SPDX-License-Identifier: Apache-2.0
/*
 * Links between devices, and of a device to the host (with SIM_CUDA_COMPUTE): 400 GB/s where peer access is enabled,
 * 20 GB/s where not, 50 GB/s of the host; 1 us for a load from another device. From the environment, lists with commas:
 *     SIM_P2P_SLOW=1-2:50   what goes from device 1 to device 2 takes 50 % longer, loads too
 *     SIM_P2P_WRONG=1-2     it brings a wrong bit
 *     SIM_P2P_NONE=1-2      device 1 cannot access device 2
 *     SIM_HOST_SLOW=1-1:50  copies between device 1 and the host take 50 % longer
 */
#include "tools/simjob/libcuda/compute.h"
#include "tools/simjob/libcuda/slow_while.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 64
#define PEER_BYTES_PER_US 400000
#define OFF_BYTES_PER_US 20000
#define HOST_BYTES_PER_US 50000
#define LOAD_NS 1000
#define PUT_NS 5000000ull /* 20 us on an H200; so long that who does not wait is seen each time */
#define PEER_ALREADY_ENABLED 704
#define PERFORMANCE_RANK 1

static bool enabled[DEVICES_MAX][DEVICES_MAX];

/* The value behind "from-to:" of a list; 1: there is none behind it, 0: the link is not in it. */
static long setting_of(const char *name, int from, int to)
{
	const char *at = getenv(name);
	int a, b, n;
	long value;

	for (; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
		value = 1;
		n = sscanf(at, "%d-%d:%ld", &a, &b, &value);
		if (n >= 2 && a == from && b == to)
			return value;
	}
	return 0;
}

static uint64_t slower(uint64_t ns, const char *name, int from, int to)
{
	long percent = setting_of(name, from, to);

	return percent && slow_now() ? ns + ns * percent / 100 : ns;
}

static uint64_t link_ns(int from, int to, uint64_t size_bytes)
{
	bool direct = from >= 0 && to >= 0 && (enabled[from][to] || enabled[to][from]);
	uint64_t ns = size_bytes * NSEC_PER_USEC / (direct ? PEER_BYTES_PER_US : OFF_BYTES_PER_US);

	return slower(ns, "SIM_P2P_SLOW", from, to);
}

uint64_t peer_kernel_ns(const struct compute_kernel *kernel, const uint64_t *params)
{
	int here = sim_device_current(), other = memory_device(params[0]);

	if (kernel->run == stress_copy)
		return link_ns(memory_device(params[1]), other, 16 * params[2]);
	if (kernel->run == stress_chase)
		return params[1] * slower(LOAD_NS, "SIM_P2P_SLOW", other, here);
	return 0;
}

static void spoil(int from, int to, void *at)
{
	if (setting_of("SIM_P2P_WRONG", from, to))
		*(unsigned char *)at ^= 1;
}

void peer_spoil(const struct compute_kernel *kernel, const uint64_t *params)
{
	if (kernel->run == stress_copy)
		spoil(memory_device(params[1]), memory_device(params[0]), (void *)(uintptr_t)params[0]);
}

SIM_EXPORT CUresult cuDeviceCanAccessPeer(int *ret_can, CUdevice device, CUdevice peer)
{
	*ret_can = device != peer && !setting_of("SIM_P2P_NONE", device, peer);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	int here = sim_device_current();

	(void)flags;
	if (setting_of("SIM_P2P_NONE", here, peer->device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (enabled[here][peer->device])
		return PEER_ALREADY_ENABLED;
	enabled[here][peer->device] = true;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGetP2PAttribute(int *ret_value, int attribute, CUdevice from, CUdevice to)
{
	(void)from, (void)to;
	*ret_value = attribute != PERFORMANCE_RANK;
	return CUDA_SUCCESS;
}

struct copy {
	void *to;
	const void *from;
	size_t size_bytes;
	int from_device, to_device;
};

static void copy_run(void *arg)
{
	struct copy *copy = arg;

	memcpy(copy->to, copy->from, copy->size_bytes);
	spoil(copy->from_device, copy->to_device, copy->to);
	free(copy);
}

static CUresult copy_launch(const struct copy *copy, CUstream stream, uint64_t duration_ns)
{
	struct copy *mine = malloc(sizeof(*mine));
	CUresult res;

	if (!mine)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*mine = *copy;
	res = sim_compute_launch(stream, copy_run, mine, duration_ns);
	if (res)
		free(mine);
	return res;
}

/* Without peer access the copy goes through memory of the host, and the call waits for what the stream does before. */
SIM_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
				      size_t size_bytes, CUstream stream)
{
	const struct copy copy = { (void *)(uintptr_t)to, (const void *)(uintptr_t)from, size_bytes,
				   from_context->device, to_context->device };

	if (!enabled[copy.from_device][copy.to_device])
		cuStreamSynchronize(stream);
	return copy_launch(&copy, stream, link_ns(copy.from_device, copy.to_device, size_bytes));
}

CUresult peer_host_copy(void *to, const void *from, size_t size_bytes, CUstream stream)
{
	const struct copy copy = { to, from, size_bytes, -1, -1 };
	int here = sim_device_current();
	uint64_t ns = size_bytes * NSEC_PER_USEC / HOST_BYTES_PER_US;

	return copy_launch(&copy, stream, slower(ns, "SIM_HOST_SLOW", here, here));
}

struct put {
	void *to;
	size_t size_bytes;
	unsigned char bytes[];
};

static void put_run(void *arg)
{
	struct put *put = arg;

	memcpy(put->to, put->bytes, put->size_bytes);
	free(put);
}

CUresult peer_put(void *to, const void *from, size_t size_bytes)
{
	struct put *put = malloc(sizeof(*put) + size_bytes);
	CUresult res;

	if (!put)
		return CUDA_ERROR_OUT_OF_MEMORY;
	put->to = to;
	put->size_bytes = size_bytes;
	memcpy(put->bytes, from, size_bytes);
	res = sim_compute_launch(NULL, put_run, put, PUT_NS);
	if (res)
		free(put);
	return res;
}
