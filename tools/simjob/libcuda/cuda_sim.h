/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stand-in for libcuda offers beyond the real driver: the way in for the libnccl stand-in, whose kernels
 * end when their peers have arrived and not after a time known at launch.
 */
#ifndef SIMJOB_CUDA_SIM_H
#define SIMJOB_CUDA_SIM_H

#include "tools/simjob/libcuda/cuda_abi.h"

#include <stdint.h>

/*
 * A kernel that is its owner's code. run(): one launch, on the stream's own thread; @arg is the launch's first kernel
 * parameter, @ready_ns the instant at which the stream reaches it (it may lie in the future). Returns the instant at
 * which the launch ends on the GPU. A launch into a capturing stream keeps @arg; each launch of the graph then asks
 * replay() on the launching thread, in the order of capture, for what run() gets (NULL: out of memory), and release()
 * takes the kept one when the last graph that holds it is gone.
 */
struct sim_kernel {
	uint64_t (*run)(void *arg, uint64_t ready_ns);
	void *(*replay)(void *captured);
	void (*release)(void *captured);
};

/*
 * Work that is really done, on the stream's own thread in its turn, and that takes @duration_ns of the GPU's time (more
 * on a slow one). Its memory is the calling process's own (SIM_CUDA_COMPUTE).
 */
CUresult sim_compute_launch(CUstream stream, void (*run)(void *arg), void *arg, uint64_t duration_ns);

/* The device of the calling thread's context. */
int sim_device_current(void);

/* A function handle for cuLaunchKernel(Ex) whose launches go to @kernel; never freed. NULL when out of memory. */
CUfunction sim_function_create(const struct sim_kernel *kernel);

/*
 * Modelled kernels in graphs launched from now on take @factor of their captured time: a GPU that is slow or jitters.
 */
void sim_graphs_scale(double factor);

/*
 * Returns when the end of all work handed in is known, so that nothing more is owed to a peer from this process, or
 * after @timeout_ns when a peer has not arrived. A process stopped afterwards delays no operation it has entered.
 */
void sim_device_settle(uint64_t timeout_ns);

#endif
