/* SPDX-License-Identifier: Apache-2.0
 *
 * inject.c - see inject.h.
 */
#include "tools/stress/gpu/inject.h"

#define INJECT_BATCH 2 /* behind the ballots: a single fault comes later, as most do */

static int byte_flip(struct stress_gpu *gpu, cuda_ptr at, unsigned int bit)
{
	const struct cuda *cuda = &gpu->run->cuda;
	unsigned char byte = 0;
	int err = gpu_wait(gpu);

	err = err ? err : gpu_try(gpu, cuda->to_host(&byte, at, 1), "a copy");
	byte ^= 1u << bit;
	return err ? err : gpu_put(gpu, at, &byte, 1);
}

int inject_results(struct gemm *g, int way)
{
	const struct inject *inject = &g->gpu->run->options->inject;
	uint32_t bytes = g->number->c_bytes;
	uint64_t at = ((uint64_t)inject->column * g->n + inject->row) * bytes + inject->bit / 8;
	int err = 0;

	if (inject->kind != INJECT_FLIP || inject->gpu != g->gpu->ordinal || inject->bit >= 8 * bytes)
		return 0;
	for (uint32_t slot = 0; !err && slot < g->half; slot++)
		if (inject->always || (g->batches == INJECT_BATCH && !slot))
			err = byte_flip(g->gpu, g->c[way][slot] + at, inject->bit % 8);
	return err;
}

int inject_memory(struct stress_gpu *gpu, cuda_ptr at, uint64_t base, uint64_t bytes, bool *done)
{
	const struct inject *inject = &gpu->run->options->inject;

	if (inject->kind != INJECT_MEMORY || inject->gpu != gpu->ordinal || *done || inject->at < base ||
	    inject->at >= base + bytes)
		return 0;
	*done = true;
	return byte_flip(gpu, at + (inject->at - base), inject->bit % 8);
}
