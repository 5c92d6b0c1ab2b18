/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm.h - the GEMM burn: a window of one number type on all GPUs at once, every result hashed and compared.
 *
 * C = A * B again and again into a ring of results; one half of the ring from A as it is, the other from A with its
 * rows rotated. While one half is computed, the hashes of the other are compared with the reference of vote.h. The
 * rate comes from events around each half's GEMMs alone.
 */
#ifndef STRESS_GPU_GEMM_H
#define STRESS_GPU_GEMM_H

#include "tools/stress/gpu/vote.h"
#include "tools/stress/run.h"

#define RING_HALF_MAX 8
#define WORKSPACE_BYTES (64u << 20)

/* What the GPUs of a class share in a window; made by the first of them. */
struct gemm_class {
	bool chosen, failed; /* the algorithm; it cannot be had */
	struct cublaslt_algo algo;
	uint64_t product_ns; /* what one takes, about, on the fastest of them, then on the first; 0: not known */
	char why[LIBRARY_WHY];
	struct vote vote;
	int voters[STRESS_GPUS_MAX]; /* index in the run, of each voter */
};

struct gemm {
	struct stress_gpu *gpu;
	const struct number *number;
	int number_id;
	struct gemm_class *class;
	uint32_t n, tile, side, rotate, half; /* elements, of a tile's side, tiles, tiles, results in half a ring */
	cublaslt_handle lt, desc, layout_a, layout_b, layout_c, pref;
	cuda_ptr a, b, c[N_WAYS][RING_HALF_MAX], hashes, workspace;
	uint64_t *host[N_WAYS], *ballot[N_WAYS]; /* hashes of a half; this GPU's own majority */
	cuda_handle begin[N_WAYS], end[N_WAYS], hashed[N_WAYS];
	uint64_t narrow_ns; /* what a product takes on this GPU, by a part of one; 0: it cannot run */
	uint64_t batches;
	struct series rates;
	uint32_t fetched; /* tiles, of results that differ */
	bool usable;      /* its results may be read by others: under the run's lock */
};

/* One GPU's part of a window; all of the crew call it with the same type. */
void gemm_window(struct stress_gpu *gpu, int number_id);
/* Frees what a window's classes hold; `run` is a struct stress_run. */
void gemm_classes_reset(void *run);

/* gemm_setup.c. 0; -ENOMEM or -ENOTSUP with gpu->why; -EIO: lost. */
int gemm_setup(struct gemm *g);
void gemm_release(struct gemm *g);
int gemm_enqueue(struct gemm *g, int way, int slot, const struct cublaslt_algo *algo);

/* gemm_choose.c: on each GPU g->narrow_ns; when all have it class->product_ns, of the fastest (`run` is a struct
 * stress_run); then, on one, the algorithm for all GPUs of the class; then, on each, a batch of about a second at most,
 * and how long its work should take (gpu->work_ns). */
void gemm_narrow_time(struct gemm *g);
void gemm_classes_time(void *run);
void gemm_choose(struct gemm *g);
/* Whether `--quick` leaves the type out on GPUs of that kind, where a product takes so long on the fastest of them. */
bool gemm_is_left_out(const struct stress_gpu *gpu, int number_id, uint64_t product_ns);
void gemm_batch_fit(struct gemm *g);

/* gemm_check.c */
int gemm_hash(struct gemm *g, int way);         /* enqueues the hashes of a half */
int gemm_hashes_fetch(struct gemm *g, int way); /* when they are computed */
int gemm_check(struct gemm *g, int way);        /* compares them with the reference */
int gemm_open_tiles(struct gemm *g);            /* faults of what the vote left open */

/* checksum.c: of the first result, once a window. */
int gemm_checksum(struct gemm *g);

#endif
