/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the stand-ins from inside share: one process with four ranks, a stream each, on one device, and a
 * check that ends the program. Included once.
 */
#ifndef TESTS_SIMJOB_RANKS_IN_ONE_H
#define TESTS_SIMJOB_RANKS_IN_ONE_H

#include "tools/simjob/libnccl/comm.h"

#include <stdio.h>
#include <stdlib.h>

#define NR_RANKS 4
#define EXPECT(CONDITION) \
	do { \
		if (!(CONDITION)) { \
			printf("FAIL: %s:%d: %s\n", __FILE__, __LINE__, #CONDITION); \
			exit(1); \
		} \
	} while (0)

static CUstream streams[NR_RANKS];
static CUfunction kernel;

static void device_open(void)
{
	CUcontext context;
	CUmodule module;
	int i;

	EXPECT(cuStreamCreate(&streams[0], 0) == CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(!cuInit(0) && !cuDevicePrimaryCtxRetain(&context, 2) && !cuCtxSetCurrent(context));
	EXPECT(!cuModuleLoadData(&module, "x") && !cuModuleGetFunction(&kernel, module, "x"));
	for (i = 0; i < NR_RANKS; i++)
		EXPECT(!cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
}

static void kernel_launch(CUstream stream, uint64_t duration_ns)
{
	void *params[] = { &duration_ns };

	EXPECT(!cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
}

static double ms_since(uint64_t begin_ns)
{
	return (double)(clock_now_ns() - begin_ns) / NSEC_PER_MSEC;
}

#endif
