// SPDX-License-Identifier: Apache-2.0
/*
 * The driver's front door: initialisation, devices, primary contexts, error names, and cuGetProcAddress, through which
 * cudart and NCCL find everything else.
 */
#include "tools/simjob/libcuda/device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_DEVICES 256
#define DRIVER_VERSION "13000"
#define L2_BYTES (96 << 10) /* little: buffers that no cache holds stay small */

static struct CUctx_st primary_contexts[MAX_DEVICES];
static _Thread_local CUcontext current_context;
static int nr_devices; /* 0 before cuInit */

const char *sim_setting(const char *name, const char *usual)
{
	const char *value = getenv(name);

	return value ? value : usual;
}

CUcontext context_current(void)
{
	return current_context;
}

/* The driver opens its devices: 0.3 to 1 s on an 8-GPU host, longer on a busy one. A tracer that attaches has that
 * long. */
#define INIT_MS "400"

SIM_EXPORT CUresult cuInit(unsigned int flags)
{
	const char *count = getenv("SIM_CUDA_DEVICES"), *init_ms = getenv("SIM_CUDA_INIT_MS");
	int i, wanted = count ? atoi(count) : 8;
	CUresult res = call_injected_error(__func__);

	if (res)
		return res;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (wanted < 1 || wanted > MAX_DEVICES)
		return CUDA_ERROR_INVALID_DEVICE;
	for (i = 0; i < wanted; i++)
		primary_contexts[i].device = i;
	if (!nr_devices)
		usleep(atoi(init_ms ? init_ms : INIT_MS) * 1000);
	nr_devices = wanted;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDriverGetVersion(int *ret_version)
{
	if (!ret_version)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_version = atoi(sim_setting("SIM_CUDA_DRIVER_VERSION", DRIVER_VERSION));
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGetCount(int *ret_count)
{
	if (!nr_devices)
		return CUDA_ERROR_NOT_INITIALIZED;
	*ret_count = nr_devices;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGet(CUdevice *ret_device, int ordinal)
{
	if (!nr_devices)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (ordinal < 0 || ordinal >= nr_devices)
		return CUDA_ERROR_INVALID_DEVICE;
	*ret_device = ordinal;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGetName(char *ret_name, int size, CUdevice device)
{
	if (device < 0 || device >= nr_devices)
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(ret_name, size, "%s", sim_setting("SIM_GPU_NAME", "simulated GPU"));
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGetPCIBusId(char *ret_id, int size, CUdevice device)
{
	if (device < 0 || device >= nr_devices)
		return CUDA_ERROR_INVALID_DEVICE;
	if (atoi(sim_setting("SIM_GPU_DOMAINS", "0")))
		snprintf(ret_id, size, "%04X:10:00.0", 1 + device);
	else
		snprintf(ret_id, size, "0000:%02X:00.0", 0x10 + device);
	return CUDA_SUCCESS;
}

/* An H200's, but for its cache, as far as anybody asks. */
SIM_EXPORT CUresult cuDeviceGetAttribute(int *ret_value, int attribute, CUdevice device)
{
	if (device < 0 || device >= nr_devices)
		return CUDA_ERROR_INVALID_DEVICE;
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *ret_value = 132; break;
	case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *ret_value = L2_BYTES; break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *ret_value = 9; break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *ret_value = 0; break;
	default: return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *ret_context, CUdevice device)
{
	if (!nr_devices)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (device < 0 || device >= nr_devices)
		return CUDA_ERROR_INVALID_DEVICE;
	usage_open(device, nr_devices);
	*ret_context = &primary_contexts[device];
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	return device >= 0 && device < nr_devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

SIM_EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
	current_context = context;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetCurrent(CUcontext *ret_context)
{
	*ret_context = current_context;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetDevice(CUdevice *ret_device)
{
	if (!current_context)
		return CUDA_ERROR_INVALID_CONTEXT;
	*ret_device = current_context->device;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxSynchronize(void)
{
	return current_context ? stream_synchronize_all() : CUDA_ERROR_INVALID_CONTEXT;
}

struct error_name {
	CUresult error;
	const char *name;
};

static const struct error_name error_names[] = {
	{ CUDA_SUCCESS, "CUDA_SUCCESS" },
	{ CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE" },
	{ CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY" },
	{ CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED" },
	{ CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE" },
	{ CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE" },
	{ CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT" },
	{ CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" },
	{ CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE" },
	{ CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE" },
	{ CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND" },
	{ CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY" },
	{ CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED" },
	{ CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" },
	{ CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" },
	{ CUDA_ERROR_STREAM_CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE" },
	{ CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED" },
	{ CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED" },
	{ CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION" },
	{ CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT" },
	{ CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT" },
	{ CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD" },
	{ CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE" },
};

SIM_EXPORT CUresult cuGetErrorName(CUresult error, const char **ret_name)
{
	size_t i;

	for (i = 0; i < sizeof(error_names) / sizeof(error_names[0]); i++) {
		if (error_names[i].error == error) {
			*ret_name = error_names[i].name;
			return CUDA_SUCCESS;
		}
	}
	*ret_name = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuGetErrorString(CUresult error, const char **ret_text)
{
	return cuGetErrorName(error, ret_text);
}

/* Symbols lie under several names; the driver hands out the newest, in the per-thread flavour when asked for. */
static void *symbol_find(const char *name, bool per_thread)
{
	static const char *const suffixes[] = {
		"_v3_ptsz", "_v2_ptsz", "_v2_ptds", "_ptsz", "_ptds", "_v3", "_v2", ""
	};
	char full_name[128];
	void *library, *symbol = NULL;
	Dl_info self;
	size_t i;

	if (!dladdr((void *)symbol_find, &self))
		return NULL;
	/* The one whose newest form does not end in a version. */
	if (!strcmp(name, "cuGraphInstantiate"))
		name = "cuGraphInstantiateWithFlags";
	library = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	for (i = per_thread ? 0 : 5; library && !symbol && i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		snprintf(full_name, sizeof(full_name), "%s%s", name, suffixes[i]);
		symbol = dlsym(library, full_name);
	}
	if (library)
		dlclose(library);
	return symbol;
}

SIM_EXPORT CUresult cuGetProcAddress_v2(const char *name, void **ret_symbol, int cuda_version, uint64_t flags,
					int *ret_status)
{
	(void)cuda_version;
	if (!name || !ret_symbol)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_symbol = symbol_find(name, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
	if (ret_status)
		*ret_status = *ret_symbol ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return *ret_symbol ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
