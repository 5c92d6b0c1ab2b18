/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that are done in C: those of `ranktrace stress` (tools/stress/kernels/stress.ptx). A kernel gets its
 * parameters widened to 64 bits; its grid means nothing, all is done in one call.
 */
#ifndef SIMJOB_CUDA_COMPUTE_H
#define SIMJOB_CUDA_COMPUTE_H

#include "tools/simjob/libcuda/device.h"

#define COMPUTE_PARAMS_MAX 16
#define COMPUTE_LAUNCH_NS 5000

struct compute_kernel {
	const char *name;
	const char *sizes; /* of its parameters, a digit each */
	void (*run)(const uint64_t *params);
	double ns_per_word; /* of the second parameter */
};

/* X(name, sizes of parameters, time a word) */
#define COMPUTE_KERNELS(X) \
	X(stress_fill, "888444444488", 0) \
	X(stress_hash, "88448", 0) \
	X(stress_sums, "848844848", 0) \
	X(stress_mem_write, "88488444", 0.05) \
	X(stress_mem_check, "88488444484", 0.05) \
	X(stress_mem_move, "884", 0.005) \
	X(stress_part_fill, "88884444444", 0.005) \
	X(stress_part_check, "888884444444488", 0.005) \
	X(stress_spin, "88", 0) \
	X(stress_copy, "888", 0) \
	X(stress_chase, "888", 0)

/* peer.c: what a copy between devices, or a walk through another's memory, takes; and what it does wrong. */
uint64_t peer_kernel_ns(const struct compute_kernel *kernel, const uint64_t *params);
void peer_spoil(const struct compute_kernel *kernel, const uint64_t *params);

/* stress_kernels.c, link_kernels.c */
#define KERNEL(id, sizes, ns) void id(const uint64_t *p);
COMPUTE_KERNELS(KERNEL)
#undef KERNEL

#endif
