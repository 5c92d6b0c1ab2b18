// SPDX-License-Identifier: Apache-2.0
/*
 * What a network adapter reaches device memory by: a file of a range of it (dma-buf), into which the stand-in for
 * libibverbs looks, and what an address is of (nvidia-peermem asks that).
 */
#include "tools/simjob/libcuda/device.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANGE_HANDLE_DMA_BUF 1
#define POINTER_ATTRIBUTE_DEVICE_ORDINAL 9
#define HOST_PAGE 4096

SIM_EXPORT CUresult cuMemGetHandleForAddressRange(void *ret_handle, CUdeviceptr at, size_t size_bytes, int type,
						  unsigned long long flags)
{
	const uint64_t range[2] = { at, size_bytes };
	CUresult res = call_injected_error(__func__);
	int fd;

	if (!res && !strcmp(sim_setting("SIM_CUDA_DMABUF", "1"), "0")) /* the closed driver */
		res = CUDA_ERROR_NOT_SUPPORTED;
	if (res)
		return res;
	if (!ret_handle || !size_bytes || at % HOST_PAGE || size_bytes % HOST_PAGE || type != RANGE_HANDLE_DMA_BUF ||
	    flags || memory_device(at) < 0 || memory_device(at + size_bytes - 1) != memory_device(at))
		return CUDA_ERROR_INVALID_VALUE;
	fd = memfd_create("dmabuf", MFD_CLOEXEC);
	if (fd < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (write(fd, range, sizeof(range)) != sizeof(range)) {
		close(fd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*(int *)ret_handle = fd;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuPointerGetAttribute(void *ret_value, int attribute, CUdeviceptr at)
{
	int device = memory_device(at);

	if (!ret_value || attribute != POINTER_ATTRIBUTE_DEVICE_ORDINAL || device < 0)
		return CUDA_ERROR_INVALID_VALUE;
	*(int *)ret_value = device;
	return CUDA_SUCCESS;
}
