// SPDX-License-Identifier: Apache-2.0
/*
 * Device memory: addresses without contents. An allocation reserves address space that nobody can touch, as device
 * memory looks from the host; a copy takes its time on the stream, and what it brings to the host is zeroes.
 */
#include "device.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define COPY_LATENCY_NS 8000
#define COPY_BYTES_PER_US 25000 /* a PCIe 4.0 x16 link, 25 GB/s */
#define ALLOCATION_GRANULE (2UL << 20)

struct allocation {
	struct allocation *next;
	void *base;
	size_t size_bytes;
};

static pthread_mutex_t allocations_lock = PTHREAD_MUTEX_INITIALIZER;
static struct allocation *allocations;

SIM_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *ret_address, size_t size_bytes)
{
	struct allocation *allocation;
	CUresult res = capture_permits_unsafe_call();

	if (!ret_address || !size_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!context_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (res)
		return res;
	allocation = calloc(1, sizeof(*allocation));
	if (!allocation)
		return CUDA_ERROR_OUT_OF_MEMORY;
	allocation->size_bytes = (size_bytes + ALLOCATION_GRANULE - 1) & ~(ALLOCATION_GRANULE - 1);
	allocation->base =
	    mmap(NULL, allocation->size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (allocation->base == MAP_FAILED) {
		free(allocation);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_lock(&allocations_lock);
	allocation->next = allocations;
	allocations = allocation;
	pthread_mutex_unlock(&allocations_lock);
	*ret_address = (CUdeviceptr)(uintptr_t)allocation->base;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemFree_v2(CUdeviceptr address)
{
	struct allocation **link, *allocation = NULL;
	CUresult res = capture_permits_unsafe_call();

	if (res)
		return res;
	pthread_mutex_lock(&allocations_lock);
	for (link = &allocations; *link; link = &(*link)->next) {
		if ((CUdeviceptr)(uintptr_t)(*link)->base == address) {
			allocation = *link;
			*link = allocation->next;
			break;
		}
	}
	pthread_mutex_unlock(&allocations_lock);
	if (!allocation)
		return CUDA_ERROR_INVALID_VALUE;
	/* The driver waits for work that may still use the memory. */
	stream_synchronize_all();
	munmap(allocation->base, allocation->size_bytes);
	free(allocation);
	return CUDA_SUCCESS;
}

static CUresult copy_enqueue(CUstream handle, size_t size_bytes)
{
	struct CUstream_st *stream = stream_resolve(handle);
	uint64_t duration_ns = COPY_LATENCY_NS + size_bytes * NSEC_PER_USEC / COPY_BYTES_PER_US;

	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return stream_enqueue(stream, &(struct sim_work){.kind = WORK_COPY, .duration_ns = duration_ns});
}

static CUresult copy_to_host_enqueue(void *host, size_t size_bytes, CUstream stream)
{
	memset(host, 0, size_bytes);
	return copy_enqueue(stream, size_bytes);
}

#define DEFINE_COPIES(SUFFIX)                                                                                          \
	SIM_EXPORT CUresult cuMemcpyAsync##SUFFIX(CUdeviceptr to, CUdeviceptr from, size_t size_bytes,                 \
						  CUstream stream)                                                     \
	{                                                                                                              \
		(void)to, (void)from;                                                                                  \
		return copy_enqueue(stream, size_bytes);                                                               \
	}                                                                                                              \
	SIM_EXPORT CUresult cuMemcpyHtoDAsync_v2##SUFFIX(CUdeviceptr to, const void *from, size_t size_bytes,          \
							 CUstream stream)                                              \
	{                                                                                                              \
		(void)to, (void)from;                                                                                  \
		return copy_enqueue(stream, size_bytes);                                                               \
	}                                                                                                              \
	SIM_EXPORT CUresult cuMemcpyDtoHAsync_v2##SUFFIX(void *to, CUdeviceptr from, size_t size_bytes,                \
							 CUstream stream)                                              \
	{                                                                                                              \
		(void)from;                                                                                            \
		return copy_to_host_enqueue(to, size_bytes, stream);                                                   \
	}

DEFINE_COPIES()
DEFINE_COPIES(_ptsz)

static CUresult copy_to_host(void *to, size_t size_bytes)
{
	CUresult res = copy_to_host_enqueue(to, size_bytes, NULL);

	return res ? res : stream_synchronize(NULL);
}

SIM_EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size_bytes)
{
	(void)from;
	return copy_to_host(to, size_bytes);
}

SIM_EXPORT CUresult cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t size_bytes)
{
	(void)from;
	return copy_to_host(to, size_bytes);
}
