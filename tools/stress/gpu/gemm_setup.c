/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_setup.c - memory, operands and descriptors of a window.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/stress/gpu/gemm.h"

#define TILE_MAX 128
#define MEMORY_SHARE 0.8
#define FILL_BLOCK 256

static size_t bytes_of_a(const struct gemm *g)
{
	return (size_t)(g->n + g->rotate * g->tile) * g->n * g->number->bytes;
}

static size_t bytes_of_c(const struct gemm *g)
{
	return (size_t)g->n * g->n * g->number->c_bytes;
}

static void shape_set(struct gemm *g)
{
	g->n = g->gpu->run->options->size;
	for (g->tile = TILE_MAX; g->tile > g->n / 4 || g->n % g->tile;)
		g->tile /= 2;
	g->side = g->n / g->tile;
	g->rotate = 2; /* tiles of 256 rows are the largest in use: another multiprocessor has the next */
}

static int memory_get(struct gemm *g)
{
	size_t free_bytes = 0, total, fixed, tiles = (size_t)g->side * g->side;
	int err = gpu_try(g->gpu, g->gpu->run->cuda.memory(&free_bytes, &total), "its free memory");

	fixed = bytes_of_a(g) + (size_t)g->n * g->n * g->number->bytes + WORKSPACE_BYTES;
	g->half = RING_HALF_MAX;
	while (g->half > 1 && fixed + 2 * g->half * bytes_of_c(g) > MEMORY_SHARE * free_bytes)
		g->half--;
	err = err ? err : gpu_alloc(g->gpu, bytes_of_a(g), &g->a);
	err = err ? err : gpu_alloc(g->gpu, (size_t)g->n * g->n * g->number->bytes, &g->b);
	err = err ? err : gpu_alloc(g->gpu, WORKSPACE_BYTES, &g->workspace);
	err = err ? err : gpu_alloc(g->gpu, N_WAYS * RING_HALF_MAX * tiles * sizeof(uint64_t), &g->hashes);
	for (uint32_t i = 0; !err && i < N_WAYS * g->half; i++)
		err = gpu_alloc(g->gpu, bytes_of_c(g), &g->c[i % N_WAYS][i / N_WAYS]);
	for (int way = 0; !err && way < N_WAYS; way++) {
		g->host[way] = malloc(g->half * tiles * sizeof(uint64_t));
		g->ballot[way] = malloc(tiles * sizeof(uint64_t));
		if (!g->host[way] || !g->ballot[way])
			err = -ENOMEM;
	}
	if (err == -ENOMEM)
		snprintf(
			g->gpu->why, sizeof(g->gpu->why),
			"GPU %d: out of memory for matrices of %u (%zu of %zu MiB are free): a smaller --size, or free "
			"the memory (nvidia-smi says who holds it)",
			g->gpu->ordinal, g->n, free_bytes >> 20, total >> 20);
	return err;
}

/* Rows of A behind the last one are its first ones again: the rotated A is a pointer into it. */
static int fill(struct gemm *g, cuda_ptr to, uint64_t elements, bool negate, uint64_t seed)
{
	const struct number *number = g->number;
	uint64_t period = (uint64_t)g->n * g->n, seed_of_columns = g->gpu->run->options->seed * 7919 + 1;
	uint32_t negated = negate;
	void *params[] = { &to,
			   &elements,
			   &period,
			   &g->n,
			   (void *)&number->bytes,
			   (void *)&number->mantissa,
			   (void *)&number->bias,
			   (void *)&number->span,
			   &negated,
			   (void *)&number->shift,
			   &seed,
			   &seed_of_columns };

	return gpu_launch(g->gpu, KERNEL_FILL, 4 * g->gpu->sm_count, 1, FILL_BLOCK, params);
}

static int operands_fill(struct gemm *g)
{
	uint64_t seed = g->gpu->run->options->seed * 1000003 + g->number_id;
	int err = fill(g, g->a, bytes_of_a(g) / g->number->bytes, false, seed);

	err = err ? err : fill(g, g->b, (uint64_t)g->n * g->n, true, ~seed);
	return err ? err : gpu_wait(g->gpu);
}

static int descriptors_make(struct gemm *g)
{
	const struct cublaslt *lt = &g->gpu->run->lt;
	const int transposed = CUBLAS_OP_T;
	const uint64_t workspace = WORKSPACE_BYTES;
	int status = lt->create(&g->lt);

	status = status ? status : lt->desc_create(&g->desc, g->number->compute, g->number->scale);
	status = status ? status : lt->desc_set(g->desc, CUBLASLT_DESC_TRANSA, &transposed, sizeof(transposed));
	status = status ? status : lt->layout_create(&g->layout_a, g->number->type, g->n, g->n, g->n);
	status = status ? status : lt->layout_create(&g->layout_b, g->number->type, g->n, g->n, g->n);
	status = status ? status : lt->layout_create(&g->layout_c, g->number->c_type, g->n, g->n, g->n);
	status = status ? status : lt->pref_create(&g->pref);
	status = status ? status
			: lt->pref_set(g->pref, CUBLASLT_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace));
	if (!status)
		return 0;
	snprintf(g->gpu->why, sizeof(g->gpu->why),
		 "GPU %d: cuBLASLt: %s: its version must fit the driver and the GPU (nvidia-smi shows what the driver "
		 "supports); give another with --cublaslt",
		 g->gpu->ordinal, cublaslt_error_text(lt, status));
	return status == CUBLAS_NOT_SUPPORTED ? -ENOTSUP : -ENOMEM;
}

int gemm_setup(struct gemm *g)
{
	const struct cuda *cuda = &g->gpu->run->cuda;
	int err = 0;

	shape_set(g);
	for (int way = 0; !err && way < N_WAYS; way++) {
		err = gpu_try(g->gpu, cuda->event_create(&g->begin[way], 0), "an event");
		err = err ? err : gpu_try(g->gpu, cuda->event_create(&g->end[way], 0), "an event");
		err = err ? err : gpu_try(g->gpu, cuda->event_create(&g->hashed[way], 0), "an event");
	}
	err = err ? err : memory_get(g);
	err = err ? err : descriptors_make(g);
	return err ? err : operands_fill(g);
}

void gemm_release(struct gemm *g)
{
	const struct cuda *cuda = &g->gpu->run->cuda;
	const struct cublaslt *lt = &g->gpu->run->lt;

	for (int way = 0; way < N_WAYS; way++) {
		free(g->host[way]);
		free(g->ballot[way]);
	}
	if (g->gpu->lost) /* calls about it may not return */
		return;
	for (int i = 0; i < N_WAYS * RING_HALF_MAX; i++)
		if (g->c[i % N_WAYS][i / N_WAYS])
			cuda->free(g->c[i % N_WAYS][i / N_WAYS]);
	for (const cuda_ptr *at = (cuda_ptr[]){ g->a, g->b, g->hashes, g->workspace, 1 }; *at != 1; at++)
		if (*at)
			cuda->free(*at);
	for (int i = 0; i < 3 * N_WAYS; i++) {
		cuda_handle event = (i < N_WAYS ? g->begin : i < 2 * N_WAYS ? g->end : g->hashed)[i % N_WAYS];

		if (event)
			cuda->event_destroy(event);
	}
	for (const cublaslt_handle *l = (cublaslt_handle[]){ g->layout_a, g->layout_b, g->layout_c, g }; *l != g; l++)
		if (*l)
			lt->layout_destroy(*l);
	if (g->desc)
		lt->desc_destroy(g->desc);
	if (g->pref)
		lt->pref_destroy(g->pref);
	if (g->lt)
		lt->destroy(g->lt);
}

int gemm_enqueue(struct gemm *g, int way, int slot, const struct cublaslt_algo *algo)
{
	static const double one = 1, zero = 0;
	static const float one_f = 1, zero_f = 0;
	static const int32_t one_i = 1, zero_i = 0;
	const void *alpha = g->number->scale == CUDA_R_64F   ? (const void *)&one
			    : g->number->scale == CUDA_R_32I ? (const void *)&one_i
							     : (const void *)&one_f;
	const void *beta = g->number->scale == CUDA_R_64F   ? (const void *)&zero
			   : g->number->scale == CUDA_R_32I ? (const void *)&zero_i
							    : (const void *)&zero_f;
	size_t rotated = (size_t)g->rotate * g->tile * g->n * g->number->bytes;
	void *c = (void *)(uintptr_t)g->c[way][slot];

	return g->gpu->run->lt.matmul(g->lt, g->desc, alpha, (void *)(uintptr_t)(g->a + (way == ROTATED ? rotated : 0)),
				      g->layout_a, (void *)(uintptr_t)g->b, g->layout_b, beta, c, g->layout_c, c,
				      g->layout_c, algo, (void *)(uintptr_t)g->workspace, WORKSPACE_BYTES,
				      g->gpu->stream);
}
