/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stand-in for libcuda offers beyond the real driver: the way in for the libnccl stand-in, whose kernels
 * end when their peers have arrived and not after a time known at launch.
 */
#ifndef SIMJOB_CUDA_SIM_H
#define SIMJOB_CUDA_SIM_H

#include "cuda_abi.h"

#include <stdint.h>

/*
 * Runs one launch on the stream's own thread: @arg is the launch's first kernel parameter, @ready_ns the instant at
 * which the stream reaches it (it may lie in the future). Returns the instant at which the launch ends on the GPU.
 */
typedef uint64_t (*sim_kernel_fn)(void *arg, uint64_t ready_ns);

/* A function handle for cuLaunchKernel(Ex) whose launches call @run; never freed. NULL when out of memory. */
CUfunction sim_function_create(sim_kernel_fn run);

/*
 * Returns when the end of all work handed in is known, so that nothing more is owed to a peer from this process, or
 * after @timeout_ns when a peer has not arrived. A process stopped afterwards holds up no operation it has entered.
 */
void sim_device_settle(uint64_t timeout_ns);

#endif
