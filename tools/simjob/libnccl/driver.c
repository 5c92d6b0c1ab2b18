// SPDX-License-Identifier: Apache-2.0
/*
 * The stand-in's own way to libcuda: dlopen by soname and cuGetProcAddress, as NCCL does, so that no link between the
 * two libraries shows in their headers either.
 */
#include "tools/simjob/libnccl/comm.h"

#include <dlfcn.h>

typedef CUresult (*get_proc_address_fn)(const char *, void **, int, uint64_t, int *);

static struct cuda_driver driver;
static bool driver_is_complete;

static void driver_load(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_LAZY);
	get_proc_address_fn find = library ? (get_proc_address_fn)dlsym(library, "cuGetProcAddress_v2") : NULL;
	int status;

	if (!find)
		return;
	driver.function_create = (CUfunction(*)(const struct sim_kernel *))dlsym(library, "sim_function_create");
	driver_is_complete =
		driver.function_create && !find("cuCtxGetDevice", (void **)&driver.ctx_get_device, 13000, 0, &status) &&
		!find("cuLaunchKernelEx", (void **)&driver.launch_kernel_ex, 13000, 0, &status) &&
		!find("cuStreamGetCaptureInfo", (void **)&driver.stream_get_capture_info, 13000, 0, &status) &&
		!find("cuMemcpyAsync", (void **)&driver.memcpy_async, 13000, 0, &status) &&
		!find("cuMemAlloc", (void **)&driver.mem_alloc, 13000, 0, &status) &&
		!find("cuMemFree", (void **)&driver.mem_free, 13000, 0, &status);
}

const struct cuda_driver *cuda_driver_get(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, driver_load);
	return driver_is_complete ? &driver : NULL;
}
