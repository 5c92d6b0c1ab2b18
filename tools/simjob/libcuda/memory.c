// SPDX-License-Identifier: Apache-2.0
/*
 * Device memory: addresses without contents. An allocation reserves address space that cannot be touched, as device
 * memory looks from the host; with SIM_CUDA_COMPUTE it has contents. Either in one call, stream-ordered, or by the
 * virtual memory functions that PyTorch's expandable segments use. Host memory that is pinned is the host's own.
 */
#include "tools/simjob/libcuda/device.h"

#include <stdlib.h>
#include <sys/mman.h>

#define ALLOCATION_GRANULE (2UL << 20)
#define DEVICE_MIB "81920"
#define DEVICES_MAX 256
/* What such calls take: they go through the kernel driver and, for pinned memory, fault in every page. */
#define ALLOC_NS (150 * NSEC_PER_USEC)
#define PIN_NS (500 * NSEC_PER_USEC)

struct allocation {
	struct allocation *next;
	void *base;
	size_t size_bytes;
	bool is_host;
	int device;
};

/* What cuMemCreate makes, and where it is mapped. */
struct physical {
	size_t size_bytes;
	int device;
};

static pthread_mutex_t allocations_lock = PTHREAD_MUTEX_INITIALIZER;
static struct allocation *allocations;
static _Atomic uint64_t device_bytes_used[DEVICES_MAX];

static uint64_t device_bytes(void)
{
	return strtoull(sim_setting("SIM_GPU_MIB", DEVICE_MIB), NULL, 10) << 20;
}

static int device_current(void)
{
	return context_current() ? context_current()->device : 0;
}

static size_t granules(size_t size_bytes)
{
	return (size_bytes + ALLOCATION_GRANULE - 1) & ~(ALLOCATION_GRANULE - 1);
}

static CUresult allocation_create(size_t size_bytes, bool is_host, void **ret_base)
{
	struct allocation *allocation = calloc(1, sizeof(*allocation));
	int protection = is_host || compute_is_on() ? PROT_READ | PROT_WRITE : PROT_NONE;

	if (!allocation)
		return CUDA_ERROR_OUT_OF_MEMORY;
	allocation->is_host = is_host;
	allocation->device = device_current();
	allocation->size_bytes = is_host ? size_bytes : granules(size_bytes);
	allocation->base =
		mmap(NULL, allocation->size_bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (allocation->base == MAP_FAILED) {
		free(allocation);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!is_host)
		device_bytes_used[allocation->device] += allocation->size_bytes;
	*ret_base = allocation->base;
	pthread_mutex_lock(&allocations_lock);
	allocation->next = allocations;
	allocations = allocation;
	pthread_mutex_unlock(&allocations_lock);
	return CUDA_SUCCESS;
}

static struct allocation *allocation_take(const void *base, bool is_host)
{
	struct allocation **link, *allocation = NULL;

	pthread_mutex_lock(&allocations_lock);
	for (link = &allocations; *link; link = &(*link)->next) {
		if ((*link)->base == base && (*link)->is_host == is_host) {
			allocation = *link;
			*link = allocation->next;
			break;
		}
	}
	pthread_mutex_unlock(&allocations_lock);
	return allocation;
}

int memory_device(CUdeviceptr address)
{
	const char *at = (const char *)(uintptr_t)address;
	struct allocation *allocation;
	int device = -1;

	pthread_mutex_lock(&allocations_lock);
	for (allocation = allocations; allocation; allocation = allocation->next) {
		const char *base = allocation->base;

		if (!allocation->is_host && at >= base && at < base + allocation->size_bytes)
			device = allocation->device;
	}
	pthread_mutex_unlock(&allocations_lock);
	return device;
}

static void allocation_free(struct allocation *allocation)
{
	if (!allocation->is_host)
		device_bytes_used[allocation->device] -= allocation->size_bytes;
	munmap(allocation->base, allocation->size_bytes);
	free(allocation);
}

/* What every call here begins with: a test's wish, a current context, no capture that forbids it, and its time. */
static CUresult memory_call(const char *name, uint64_t takes_ns)
{
	CUresult res = call_injected_error(name);

	if (!res && !context_current())
		res = CUDA_ERROR_INVALID_CONTEXT;
	if (!res)
		res = capture_permits_unsafe_call();
	if (!res)
		sleep_until_ns(clock_now_ns() + takes_ns);
	return res;
}

SIM_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *ret_address, size_t size_bytes)
{
	CUresult res = memory_call(__func__, ALLOC_NS);
	void *base;

	if (!ret_address || !size_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!res && device_bytes_used[device_current()] + granules(size_bytes) > device_bytes())
		res = CUDA_ERROR_OUT_OF_MEMORY;
	if (!res)
		res = allocation_create(size_bytes, false, &base);
	if (!res)
		*ret_address = (CUdeviceptr)(uintptr_t)base;
	return res;
}

SIM_EXPORT CUresult cuMemFree_v2(CUdeviceptr address)
{
	CUresult res = memory_call(__func__, ALLOC_NS);
	struct allocation *allocation = res ? NULL : allocation_take((void *)(uintptr_t)address, false);

	if (!allocation)
		return res ? res : CUDA_ERROR_INVALID_VALUE;
	/* The driver waits for work that may still use the memory. */
	stream_synchronize_all();
	allocation_free(allocation);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemGetInfo_v2(size_t *ret_free_bytes, size_t *ret_total_bytes)
{
	if (!ret_free_bytes || !ret_total_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_total_bytes = device_bytes();
	*ret_free_bytes = *ret_total_bytes - device_bytes_used[device_current()];
	return CUDA_SUCCESS;
}

static CUresult host_alloc(const char *name, void **ret_base, size_t size_bytes)
{
	CUresult res = memory_call(name, PIN_NS);

	if (!ret_base || !size_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	return res ? res : allocation_create(size_bytes, true, ret_base);
}

SIM_EXPORT CUresult cuMemAllocHost_v2(void **ret_base, size_t size_bytes)
{
	return host_alloc(__func__, ret_base, size_bytes);
}

SIM_EXPORT CUresult cuMemHostAlloc(void **ret_base, size_t size_bytes, unsigned int flags)
{
	(void)flags;
	return host_alloc(__func__, ret_base, size_bytes);
}

SIM_EXPORT CUresult cuMemFreeHost(void *base)
{
	CUresult res = memory_call(__func__, ALLOC_NS);
	struct allocation *allocation = res ? NULL : allocation_take(base, true);

	if (!allocation)
		return res ? res : CUDA_ERROR_INVALID_VALUE;
	stream_synchronize_all();
	allocation_free(allocation);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemGetAllocationGranularity(size_t *ret_bytes, const void *properties, int option)
{
	(void)option;
	if (!ret_bytes || !properties)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_bytes = ALLOCATION_GRANULE;
	return CUDA_SUCCESS;
}

static bool is_granular(size_t size_bytes)
{
	return size_bytes && size_bytes % ALLOCATION_GRANULE == 0;
}

SIM_EXPORT CUresult cuMemAddressReserve(CUdeviceptr *ret_address, size_t size_bytes, size_t alignment,
					CUdeviceptr wanted, unsigned long long flags)
{
	void *base;

	(void)alignment, (void)wanted;
	if (!ret_address || !is_granular(size_bytes) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	base = mmap(NULL, size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	*ret_address = (CUdeviceptr)(uintptr_t)base;
	return base == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t size_bytes)
{
	if (!is_granular(size_bytes) || munmap((void *)(uintptr_t)address, size_bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *ret_handle, size_t size_bytes, const void *properties,
				unsigned long long flags)
{
	CUresult res = memory_call(__func__, ALLOC_NS);
	struct physical *physical;

	if (!ret_handle || !is_granular(size_bytes) || !properties || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!res && device_bytes_used[device_current()] + size_bytes > device_bytes())
		res = CUDA_ERROR_OUT_OF_MEMORY;
	physical = res ? NULL : calloc(1, sizeof(*physical));
	if (!physical)
		return res ? res : CUDA_ERROR_OUT_OF_MEMORY;
	physical->size_bytes = size_bytes;
	physical->device = device_current();
	device_bytes_used[device_current()] += size_bytes;
	*ret_handle = (CUmemGenericAllocationHandle)(uintptr_t)physical;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	CUresult res = memory_call(__func__, ALLOC_NS);
	struct physical *physical = (struct physical *)(uintptr_t)handle;

	if (res || !physical)
		return res ? res : CUDA_ERROR_INVALID_VALUE;
	device_bytes_used[physical->device] -= physical->size_bytes;
	free(physical);
	return CUDA_SUCCESS;
}

/* Where no tracer can look, a mapping is its time only. */
SIM_EXPORT CUresult cuMemMap(CUdeviceptr address, size_t size_bytes, size_t offset_bytes,
			     CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	const struct physical *physical = (const struct physical *)(uintptr_t)handle;

	if (!address || !physical || offset_bytes || size_bytes != physical->size_bytes || flags)
		return CUDA_ERROR_INVALID_VALUE;
	return memory_call(__func__, ALLOC_NS);
}

SIM_EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t size_bytes, const void *access, size_t nr_access)
{
	if (!address || !is_granular(size_bytes) || !access || !nr_access)
		return CUDA_ERROR_INVALID_VALUE;
	return memory_call(__func__, ALLOC_NS);
}

SIM_EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t size_bytes)
{
	if (!address || !is_granular(size_bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return memory_call(__func__, ALLOC_NS);
}

/* From a pool, in the stream's order: no time of its own. */
static CUresult alloc_async(const char *name, CUdeviceptr *ret_address, size_t size_bytes, CUstream stream)
{
	CUresult res = call_injected_error(name);
	void *base;

	if (!ret_address || !size_bytes || !stream_resolve(stream))
		return CUDA_ERROR_INVALID_VALUE;
	if (!res)
		res = allocation_create(size_bytes, false, &base);
	if (!res)
		*ret_address = (CUdeviceptr)(uintptr_t)base;
	return res;
}

static CUresult free_async(const char *name, CUdeviceptr address, CUstream stream)
{
	CUresult res = call_injected_error(name);
	struct allocation *allocation;

	if (res || !stream_resolve(stream))
		return res ? res : CUDA_ERROR_INVALID_VALUE;
	allocation = allocation_take((void *)(uintptr_t)address, false);
	if (!allocation)
		return CUDA_ERROR_INVALID_VALUE;
	allocation_free(allocation);
	return CUDA_SUCCESS;
}

#define DEFINE_ASYNC_CALLS(SUFFIX) \
	SIM_EXPORT CUresult cuMemAllocAsync##SUFFIX(CUdeviceptr *ret_address, size_t size_bytes, CUstream stream) \
	{ \
		return alloc_async(__func__, ret_address, size_bytes, stream); \
	} \
	SIM_EXPORT CUresult cuMemFreeAsync##SUFFIX(CUdeviceptr address, CUstream stream) \
	{ \
		return free_async(__func__, address, stream); \
	}

DEFINE_ASYNC_CALLS()
DEFINE_ASYNC_CALLS(_ptsz)
