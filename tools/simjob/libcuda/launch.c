// SPDX-License-Identifier: Apache-2.0
/*
 * Modules, functions and launches. A module's kernel has no code: its first parameter is how long it runs. A function
 * made by sim_function_create() asks its owner instead; that is how the libnccl stand-in gets on a stream.
 */
#include "tools/simjob/libcuda/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOAD_NS (4 * NSEC_PER_MSEC) /* a few megabytes of code to copy and link */

/* PTX: a comment or a directive comes first. */
static bool is_text(const void *image)
{
	return !memcmp(image, "//", 2) || !memcmp(image, ".v", 2);
}

/* A library is a module that belongs to no context. */
static CUresult module_load(const char *name, CUmodule *ret_module, const void *image)
{
	CUresult res = call_injected_error(name);

	if (!ret_module || !image)
		return CUDA_ERROR_INVALID_VALUE;
	if (!res)
		res = capture_permits_unsafe_call();
	if (res)
		return res;
	sleep_until_ns(clock_now_ns() + LOAD_NS);
	*ret_module = calloc(1, sizeof(**ret_module));
	if (!*ret_module)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (is_text(image))
		(*ret_module)->text = strdup(image);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuModuleLoadData(CUmodule *ret_module, const void *image)
{
	return module_load(__func__, ret_module, image);
}

SIM_EXPORT CUresult cuModuleLoadDataEx(CUmodule *ret_module, const void *image, unsigned int nr_options, int *options,
				       void **values)
{
	/* PTX 6.5 came with CUDA 10.2. */
	if (image && is_text(image) && atoi(sim_setting("SIM_CUDA_DRIVER_VERSION", "13000")) < 10020) {
		for (unsigned int i = 0; i + 1 < nr_options; i++)
			if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
				snprintf(values[i], (uintptr_t)values[i + 1],
					 "ptxas application ptx input, line 8; fatal   : Unsupported .version 6.5");
		return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	}
	return module_load(__func__, ret_module, image);
}

SIM_EXPORT CUresult cuLibraryLoadData(CUlibrary *ret_library, const void *code, int *jit_options, void **jit_values,
				      unsigned int nr_jit_options, int *options, void **values, unsigned int nr_options)
{
	(void)jit_options, (void)jit_values, (void)nr_jit_options, (void)options, (void)values, (void)nr_options;
	return module_load(__func__, (CUmodule *)ret_library, code);
}

SIM_EXPORT CUresult cuLibraryGetKernel(CUkernel *ret_kernel, CUlibrary library, const char *name)
{
	return cuModuleGetFunction((CUfunction *)ret_kernel, (CUmodule)library, name);
}

SIM_EXPORT CUresult cuKernelGetFunction(CUfunction *ret_function, CUkernel kernel)
{
	if (!ret_function || !kernel)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_function = (CUfunction)kernel;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuLibraryUnload(CUlibrary library)
{
	return cuModuleUnload((CUmodule)library);
}

SIM_EXPORT CUresult cuModuleGetFunction(CUfunction *ret_function, CUmodule module, const char *name)
{
	if (!ret_function || !module || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (module->text && !strstr(module->text, name))
		return CUDA_ERROR_NOT_FOUND;
	*ret_function = sim_function_create(NULL);
	if (!*ret_function)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(*ret_function)->compute = compute_is_on() ? compute_kernel_find(name) : NULL;
	(*ret_function)->next_in_module = module->functions;
	module->functions = *ret_function;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuModuleUnload(CUmodule module)
{
	struct CUfunc_st *function;

	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	while ((function = module->functions)) {
		module->functions = function->next_in_module;
		free(function);
	}
	free(module->text);
	free(module);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUfunction sim_function_create(const struct sim_kernel *kernel)
{
	struct CUfunc_st *function = calloc(1, sizeof(*function));

	if (function)
		function->kernel = kernel;
	return function;
}

static CUresult kernel_launch(const char *name, CUfunction function, CUstream handle, void **params)
{
	struct CUstream_st *stream = stream_resolve(handle);
	struct sim_work work = { .kind = WORK_KERNEL };
	CUresult res = call_injected_error(name);

	if (!res && stream_is_legacy(handle))
		res = capture_permits_legacy_stream();
	if (res)
		return res;
	if (!function || !params || !params[0])
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (function->compute)
		return compute_kernel_launch(function->compute, handle, params);
	if (function->kernel) {
		work.kind = WORK_CALLBACK_KERNEL;
		work.kernel = function->kernel;
		work.arg = *(void **)params[0];
	} else {
		work.duration_ns = *(const uint64_t *)params[0];
	}
	return stream_enqueue(stream, &work);
}

/* The grid means nothing here, but the driver checks it and so the stand-in does. */
static bool launch_shape_is_valid(unsigned int grid_x, unsigned int block_x)
{
	return grid_x > 0 && block_x > 0 && block_x <= 1024;
}

#define DEFINE_LAUNCH_KERNEL(NAME) \
	SIM_EXPORT CUresult NAME(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, \
				 unsigned int block_x, unsigned int block_y, unsigned int block_z, \
				 unsigned int shared_bytes, CUstream stream, void **params, void **extra) \
	{ \
		(void)grid_y, (void)grid_z, (void)block_y, (void)block_z, (void)shared_bytes, (void)extra; \
		if (!launch_shape_is_valid(grid_x, block_x)) \
			return CUDA_ERROR_INVALID_VALUE; \
		return kernel_launch(__func__, function, stream, params); \
	}

#define DEFINE_LAUNCH_KERNEL_EX(NAME) \
	SIM_EXPORT CUresult NAME(const struct CUlaunchConfig_st *config, CUfunction function, void **params, \
				 void **extra) \
	{ \
		(void)extra; \
		if (!config || !launch_shape_is_valid(config->gridDimX, config->blockDimX)) \
			return CUDA_ERROR_INVALID_VALUE; \
		return kernel_launch(__func__, function, config->hStream, params); \
	}

#define DEFINE_LAUNCH_HOST_FUNC(NAME) \
	SIM_EXPORT CUresult NAME(CUstream stream, CUhostFn host_fn, void *arg) \
	{ \
		return host_func_launch(stream, host_fn, arg); \
	}

static CUresult host_func_launch(CUstream handle, CUhostFn host_fn, void *arg)
{
	struct CUstream_st *stream = stream_resolve(handle);

	if (!host_fn || !stream)
		return CUDA_ERROR_INVALID_VALUE;
	return stream_enqueue(stream, &(struct sim_work){ .kind = WORK_HOST_FUNC, .host_fn = host_fn, .arg = arg });
}

DEFINE_LAUNCH_KERNEL(cuLaunchKernel)
DEFINE_LAUNCH_KERNEL(cuLaunchKernel_ptsz)
DEFINE_LAUNCH_KERNEL_EX(cuLaunchKernelEx)
DEFINE_LAUNCH_KERNEL_EX(cuLaunchKernelEx_ptsz)
DEFINE_LAUNCH_HOST_FUNC(cuLaunchHostFunc)
DEFINE_LAUNCH_HOST_FUNC(cuLaunchHostFunc_ptsz)
