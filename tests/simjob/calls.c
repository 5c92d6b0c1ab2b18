// SPDX-License-Identifier: Apache-2.0
/*
 * The rest of the stand-in driver: memory in its three ways, copies that block and copies that do not, code that is
 * loaded, errors on request, and that cuGetProcAddress finds each in both flavours.
 */
#include "tests/simjob/ranks_in_one.h"

#include <string.h>

#define MIB (1UL << 20)

static size_t used_bytes(void)
{
	size_t free_bytes, total_bytes;

	EXPECT(!cuMemGetInfo_v2(&free_bytes, &total_bytes));
	return total_bytes - free_bytes;
}

static void test_memory(void)
{
	CUdeviceptr memory, more;
	void *host;

	EXPECT(cuMemAlloc_v2(&memory, 0) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(!cuMemAlloc_v2(&memory, 5 * MIB) && used_bytes() == 6 * MIB);
	EXPECT(cuMemAlloc_v2(&more, 1UL << 40) == CUDA_ERROR_OUT_OF_MEMORY && used_bytes() == 6 * MIB);
	EXPECT(!cuMemFree_v2(memory) && used_bytes() == 0 && cuMemFree_v2(memory) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(!cuMemAllocHost_v2(&host, 4096) && memset(host, 1, 4096) && !cuMemFreeHost(host));
	EXPECT(!cuMemHostAlloc(&host, 4096, 0) && memset(host, 1, 4096) && used_bytes() == 0);
	EXPECT(cuMemFree_v2((CUdeviceptr)(uintptr_t)host) == CUDA_ERROR_INVALID_VALUE && !cuMemFreeHost(host));
	EXPECT(!cuMemAllocAsync(&memory, MIB, streams[0]) && used_bytes() == 2 * MIB);
	EXPECT(!cuMemFreeAsync(memory, streams[0]) && used_bytes() == 0);
}

/* Freeing waits for work that may use the memory. */
static void test_free_waits(void)
{
	uint64_t begin_ns = clock_now_ns();
	CUdeviceptr memory;

	EXPECT(!cuMemAlloc_v2(&memory, MIB));
	kernel_launch(streams[0], 30 * NSEC_PER_MSEC);
	EXPECT(!cuMemFree_v2(memory) && ms_since(begin_ns) >= 30);
}

static void test_virtual_memory(void)
{
	CUmemGenericAllocationHandle handle;
	const int properties[32] = { 0 }, access[8] = { 0 };
	CUdeviceptr range;
	size_t granule_bytes;

	EXPECT(!cuMemGetAllocationGranularity(&granule_bytes, properties, 0) && granule_bytes == 2 * MIB);
	EXPECT(!cuMemAddressReserve(&range, 8 * MIB, 0, 0, 0) && used_bytes() == 0);
	EXPECT(cuMemCreate(&handle, MIB, properties, 0) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(!cuMemCreate(&handle, 4 * MIB, properties, 0) && used_bytes() == 4 * MIB);
	EXPECT(cuMemMap(range, 2 * MIB, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(!cuMemMap(range, 4 * MIB, 0, handle, 0) && !cuMemSetAccess(range, 4 * MIB, access, 1));
	EXPECT(!cuMemUnmap(range, 4 * MIB) && !cuMemRelease(handle) && used_bytes() == 0);
	EXPECT(!cuMemAddressFree(range, 8 * MIB));
}

static void test_copies(void)
{
	char host[16];
	uint64_t begin_ns;

	memset(host, 1, sizeof(host));
	EXPECT(!cuMemcpyDtoHAsync_v2(host, 1, sizeof(host), streams[0]) && host[0] == 0 && host[15] == 0);
	/* The blocking ones wait for the default stream, and for no other. */
	kernel_launch(NULL, 40 * NSEC_PER_MSEC);
	kernel_launch(streams[0], 300 * NSEC_PER_MSEC);
	begin_ns = clock_now_ns();
	EXPECT(!cuMemcpyHtoDAsync_v2(1, host, sizeof(host), NULL) && !cuMemsetD8Async(1, 0, 4096, NULL));
	EXPECT(!cuMemcpyAsync(1, 2, 4096, NULL) && !cuMemcpyDtoDAsync_v2(1, 2, 4096, NULL) && ms_since(begin_ns) < 20);
	EXPECT(!cuMemcpyDtoH_v2(host, 1, sizeof(host)) && ms_since(begin_ns) >= 35 && ms_since(begin_ns) < 200);
	kernel_launch(NULL, 40 * NSEC_PER_MSEC);
	EXPECT(!cuMemcpyHtoD_v2(1, host, sizeof(host)) && ms_since(begin_ns) >= 75 && ms_since(begin_ns) < 250);
	/* 1 GB over a link of 25 GB/s, and within the device. */
	EXPECT(!cuCtxSynchronize());
	begin_ns = clock_now_ns();
	EXPECT(!cuMemcpyHtoDAsync_v2(1, host, 1000000000, streams[0]) && !cuCtxSynchronize());
	EXPECT(ms_since(begin_ns) >= 40);
	begin_ns = clock_now_ns();
	EXPECT(!cuMemsetD8Async(1, 0, 1000000000, streams[0]) && !cuCtxSynchronize());
	EXPECT(ms_since(begin_ns) < 30);
}

static void test_code(void)
{
	uint64_t begin_ns = clock_now_ns(), duration_ns = 1000;
	void *params[] = { &duration_ns };
	CUfunction function;
	CUlibrary library;
	CUmodule module;
	CUkernel entry;

	EXPECT(!cuModuleLoadDataEx(&module, "x", 0, NULL, NULL) && !cuModuleUnload(module));
	EXPECT(!cuLibraryLoadData(&library, "x", NULL, NULL, 0, NULL, NULL, 0) && ms_since(begin_ns) >= 8);
	EXPECT(!cuLibraryGetKernel(&entry, library, "x") && !cuKernelGetFunction(&function, entry));
	EXPECT(!cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, streams[0], params, NULL));
	EXPECT(!cuCtxSynchronize() && !cuLibraryUnload(library));
}

/* The environment asks for these; see main(). */
static void test_injection(void)
{
	uint64_t duration_ns = 1000;
	void *params[] = { &duration_ns };
	CUdeviceptr memory;
	CUevent event;
	int i;

	EXPECT(!cuEventCreate(&event, 0));
	for (i = 0; i < 3; i++)
		EXPECT(cuEventQuery(event) == CUDA_SUCCESS);
	EXPECT(cuEventQuery(event) == CUDA_ERROR_LAUNCH_FAILED && cuEventQuery(event) == CUDA_SUCCESS);
	EXPECT(cuStreamSynchronize(streams[0]) == 700 && !cuStreamSynchronize(streams[0]));
	EXPECT(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, streams[0], params, NULL) == CUDA_ERROR_LAUNCH_FAILED);
	/* Another rank's, and the other flavour's. */
	EXPECT(!cuMemAlloc_v2(&memory, MIB) && !cuMemFree_v2(memory) && !cuStreamQuery(streams[0]));
	EXPECT(cuStreamQuery_ptsz(streams[0]) == CUDA_ERROR_OUT_OF_MEMORY && !cuStreamQuery_ptsz(streams[0]));
	EXPECT(!cuEventDestroy_v2(event));
}

static void *address(const char *name, uint64_t flags)
{
	void *symbol = NULL;
	int status;

	EXPECT(!cuGetProcAddress_v2(name, &symbol, 13000, flags, &status) && status == CU_GET_PROC_ADDRESS_SUCCESS);
	return symbol;
}

static void test_addresses(void)
{
	EXPECT(address("cuMemAlloc", 0) == cuMemAlloc_v2 && address("cuMemHostAlloc", 2) == cuMemHostAlloc);
	EXPECT(address("cuMemcpyDtoH", 0) == cuMemcpyDtoH_v2 && address("cuMemcpyDtoH", 2) == cuMemcpyDtoH_v2_ptds);
	EXPECT(address("cuMemsetD8Async", 2) == cuMemsetD8Async_ptsz && address("cuMemcpyAsync", 0) == cuMemcpyAsync);
	EXPECT(address("cuGraphLaunch", 0) == cuGraphLaunch && address("cuGraphLaunch", 2) == cuGraphLaunch_ptsz);
	EXPECT(address("cuStreamBeginCapture", 0) == cuStreamBeginCapture_v2);
	EXPECT(address("cuEventElapsedTime", 2) == cuEventElapsedTime_v2);
	EXPECT(address("cuMemAllocAsync", 2) == cuMemAllocAsync_ptsz);
}

int main(void)
{
	setenv("RANK", "3", 1);
	setenv("SIM_CUDA_FAIL",
	       "cuEventQuery:after=3:error=719,cuStreamSynchronize:error=700:rank=3,cuMemAlloc_v2:rank=1:error=2,"
	       "cuLaunchKernel:error=719:after=5,cuStreamQuery_ptsz:error=2",
	       1);
	device_open();
	test_memory();
	test_free_waits();
	test_virtual_memory();
	test_copies();
	test_code();
	test_injection();
	test_addresses();
	printf("calls: memory, copies, code, errors on request: as asked\n");
	return 0;
}
