/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda_abi.h - the part of the CUDA driver's interface that the tests call, declared anew from NVIDIA's public CUDA
 * Driver API reference (names, arguments and numbers as in version 13.0). Handles are opaque there too.
 */
#ifndef STRESS_CUDA_ABI_H
#define STRESS_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { /* CUresult */
       CUDA_SUCCESS = 0,
       CUDA_ERROR_INVALID_VALUE = 1,
       CUDA_ERROR_OUT_OF_MEMORY = 2,
       CUDA_ERROR_SYSTEM_NOT_READY = 802,
       CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
       CUDA_ERROR_NO_DEVICE = 100,
       CUDA_ERROR_INVALID_PTX = 218,
       CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
       CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
       CUDA_ERROR_NOT_READY = 600,
};
enum { CU_STREAM_NON_BLOCKING = 1 };
enum { CU_HOST_ALLOC_PORTABLE = 1 };
enum { CU_PEER_PERFORMANCE_RANK = 1 };
enum { CU_RANGE_HANDLE_DMA_BUF = 1 };
enum { CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704 };
enum { CU_JIT_ERROR_LOG_BUFFER = 5, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6 };
enum {
	CU_ATTRIBUTE_SM_COUNT = 16,
	CU_ATTRIBUTE_L2_BYTES = 38,
	CU_ATTRIBUTE_CC_MAJOR = 75,
	CU_ATTRIBUTE_CC_MINOR = 76,
};

typedef void *cuda_handle; /* a context, stream, event, module or function */
typedef unsigned long long cuda_ptr;

/* X(field, symbol, required, arguments) */
/* clang-format off */
#define CUDA_FUNCTIONS(X) \
	X(init, "cuInit", true, (unsigned int flags)) \
	X(driver_version, "cuDriverGetVersion", true, (int *version)) \
	X(device_count, "cuDeviceGetCount", true, (int *n)) \
	X(device_get, "cuDeviceGet", true, (int *device, int ordinal)) \
	X(device_name, "cuDeviceGetName", true, (char *name, int size, int device)) \
	X(device_attribute, "cuDeviceGetAttribute", true, (int *value, int attribute, int device)) \
	X(device_pci, "cuDeviceGetPCIBusId", true, (char *id, int size, int device)) \
	X(context_retain, "cuDevicePrimaryCtxRetain", true, (cuda_handle *context, int device)) \
	X(context_release, "cuDevicePrimaryCtxRelease_v2", true, (int device)) \
	X(context_set, "cuCtxSetCurrent", true, (cuda_handle context)) \
	X(module_load, "cuModuleLoadDataEx", true, \
	  (cuda_handle *module, const void *image, unsigned int n, int *options, void **values)) \
	X(module_unload, "cuModuleUnload", true, (cuda_handle module)) \
	X(function_get, "cuModuleGetFunction", true, (cuda_handle *function, cuda_handle module, const char *name)) \
	X(launch, "cuLaunchKernel", true, \
	  (cuda_handle function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, \
	   unsigned int bz, unsigned int shared_bytes, cuda_handle stream, void **params, void **extra)) \
	X(alloc, "cuMemAlloc_v2", true, (cuda_ptr *at, size_t bytes)) \
	X(free, "cuMemFree_v2", true, (cuda_ptr at)) \
	X(memory, "cuMemGetInfo_v2", true, (size_t *free_bytes, size_t *total_bytes)) \
	X(to_host, "cuMemcpyDtoH_v2", true, (void *to, cuda_ptr from, size_t bytes)) \
	X(set_words, "cuMemsetD32Async", true, (cuda_ptr to, unsigned int value, size_t n, cuda_handle stream)) \
	X(stream_create, "cuStreamCreate", true, (cuda_handle *stream, unsigned int flags)) \
	X(stream_destroy, "cuStreamDestroy_v2", true, (cuda_handle stream)) \
	X(stream_query, "cuStreamQuery", true, (cuda_handle stream)) \
	X(event_create, "cuEventCreate", true, (cuda_handle *event, unsigned int flags)) \
	X(event_destroy, "cuEventDestroy_v2", true, (cuda_handle event)) \
	X(event_record, "cuEventRecord", true, (cuda_handle event, cuda_handle stream)) \
	X(event_query, "cuEventQuery", true, (cuda_handle event)) \
	X(event_elapsed, "cuEventElapsedTime", true, (float *ms, cuda_handle begin, cuda_handle end)) \
	X(can_access, "cuDeviceCanAccessPeer", true, (int *can, int device, int peer)) \
	X(peer_enable, "cuCtxEnablePeerAccess", true, (cuda_handle peer, unsigned int flags)) \
	X(peer_attribute, "cuDeviceGetP2PAttribute", false, (int *value, int attribute, int from, int to)) \
	X(copy_peer, "cuMemcpyPeerAsync", true, \
	  (cuda_ptr to, cuda_handle to_context, cuda_ptr from, cuda_handle from_context, size_t bytes, \
	   cuda_handle stream)) \
	X(to_device_async, "cuMemcpyHtoDAsync_v2", true, \
	  (cuda_ptr to, const void *from, size_t bytes, cuda_handle stream)) \
	X(to_host_async, "cuMemcpyDtoHAsync_v2", true, (void *to, cuda_ptr from, size_t bytes, cuda_handle stream)) \
	X(host_alloc, "cuMemHostAlloc", true, (void **at, size_t bytes, unsigned int flags)) \
	X(host_free, "cuMemFreeHost", true, (void *at)) \
	X(range_handle, "cuMemGetHandleForAddressRange", false, \
	  (void *handle, cuda_ptr at, size_t bytes, int type, unsigned long long flags)) \
	X(error_name, "cuGetErrorName", false, (int error, const char **name))
/* clang-format on */

struct cuda {
#define X(field, symbol, required, args) int(*field) args;
	CUDA_FUNCTIONS(X)
#undef X
};

#endif
