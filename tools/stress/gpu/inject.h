/* SPDX-License-Identifier: Apache-2.0
 *
 * inject.h - faults on purpose, in device memory, behind the work and before the check: `--inject`, the self-test.
 */
#ifndef STRESS_GPU_INJECT_H
#define STRESS_GPU_INJECT_H

#include "tools/stress/gpu/gemm.h"

/* Flips the bit that --inject asks for, if it is this GPU's turn; the stream is through then. 0 or -EIO. */
int inject_results(struct gemm *g, int way);
/* The same for memory under test, which begins at `base` and ends at `end`, counted in bytes of the whole. Once. */
int inject_memory(struct stress_gpu *gpu, cuda_ptr at, uint64_t base, uint64_t bytes, bool *done);

#endif
