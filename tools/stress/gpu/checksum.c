/* SPDX-License-Identifier: Apache-2.0
 *
 * checksum.c - the sum of each row of C against A times the sums of B's rows, both in fp64: finds what all repeats and
 * all GPUs have alike (a GPU alone, an error in the same place of each).
 *
 * The bound follows V-ABFT (arXiv 2602.08043): not a worst case but the variance of the difference. Rounding errors are
 * independent, so their variances add. For row i
 *     bound(i) = 8 * ( c_error * sqrt(sum_j C_ij^2 / 3) + sum_error * sqrt(K * sum_k A_ik^2 * sum_j B_kj^2) )
 * V-ABFT estimates the second moments from maxima, minima and means; here they are computed, which costs a pass.
 * c_error is half a unit in C's last place, sum_error that of the accumulation (numbers.def; tensor cores cut off, so
 * two bits are added; fp8 keeps 13). 8 instead of the paper's calibrated factor: 8,192 rows of nothing but rounding
 * exceed it once in 10^11 windows. int8 has no rounding: any difference counts.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <errno.h>

#include "tools/stress/gpu/gemm.h"

#define SIGMAS 8.0
#define SUMS_BLOCK 64

/* What stress_sums makes of a matrix: along which index it sums. */
struct sums {
	cuda_ptr of;
	uint32_t code, square;
	uint64_t stride_i, stride_j;
	cuda_ptr weights, out;
};

static int sums_launch(struct gemm *g, struct sums s)
{
	void *params[] = { &s.of, &s.code, &s.stride_i, &s.stride_j, &g->n, &g->n, &s.weights, &s.square, &s.out };

	return gpu_launch(g->gpu, KERNEL_SUMS, (g->n + SUMS_BLOCK - 1) / SUMS_BLOCK, 1, SUMS_BLOCK, params);
}

enum { OF_B, OF_B2, OF_A, OF_A2, OF_C, OF_C2, N_SUMS };

/* All six vectors of n doubles, in the order of the enum. */
static int sums_compute(struct gemm *g, cuda_ptr v, double *host)
{
	uint64_t n = g->n, bytes = n * sizeof(double);
	uint32_t code = g->number->code, c_code = g->number->c_code;
	const struct sums all[N_SUMS] = {
		[OF_B] = { g->b, code, 0, 1, n, 0, v + OF_B * bytes },
		[OF_B2] = { g->b, code, 1, 1, n, 0, v + OF_B2 * bytes },
		[OF_A] = { g->a, code, 0, n, 1, v + OF_B * bytes, v + OF_A * bytes },
		[OF_A2] = { g->a, code, 1, n, 1, v + OF_B2 * bytes, v + OF_A2 * bytes },
		[OF_C] = { g->c[PLAIN][0], c_code, 0, 1, n, 0, v + OF_C * bytes },
		[OF_C2] = { g->c[PLAIN][0], c_code, 1, 1, n, 0, v + OF_C2 * bytes },
	};
	int err = 0;

	for (int i = 0; !err && i < N_SUMS; i++)
		err = sums_launch(g, all[i]);
	err = err ? err : gpu_wait(g->gpu);
	return err ? err : gpu_try(g->gpu, g->gpu->run->cuda.to_host(host, v, N_SUMS * bytes), "a copy");
}

/* The row that is farthest off, as a share of its bound. */
static double worst_row(const struct gemm *g, const double *v, uint32_t *row)
{
	double c_error = ldexp(1, g->number->c_error_log2), sum_error = ldexp(1, g->number->sum_error_log2), worst = 0;
	uint64_t n = g->n;

	for (uint64_t i = 0; i < n; i++) {
		double off = fabs(v[OF_C * n + i] - v[OF_A * n + i]);
		double bound = SIGMAS * (c_error * sqrt(v[OF_C2 * n + i] / 3) + sum_error * sqrt(n * v[OF_A2 * n + i]));
		double share = off == 0 ? 0 : bound > 0 ? off / bound : INFINITY;

		if (!(share <= worst)) { /* NAN, too */
			worst = share == share ? share : INFINITY;
			*row = i;
		}
	}
	return worst;
}

int gemm_checksum(struct gemm *g)
{
	struct fault fault = { .kind = FAULT_CHECKSUM, .gpu = g->gpu->index, .measure = g->number_id };
	size_t bytes = (size_t)N_SUMS * g->n * sizeof(double);
	double *host = malloc(bytes), worst = 0;
	cuda_ptr v = 0;
	int err = host ? gpu_alloc(g->gpu, bytes, &v) : -ENOMEM;

	err = err ? err : sums_compute(g, v, host);
	if (!err) {
		worst = worst_row(g, host, &fault.row);
		if (worst > g->gpu->checksum_share[g->number_id])
			g->gpu->checksum_share[g->number_id] = worst;
	}
	if (worst > 1) {
		snprintf(fault.text, sizeof(fault.text),
			 "the sum of row %u of a %s GEMM of %u is off by %.3g times what rounding explains", fault.row,
			 g->number->name, g->n, worst);
		run_fault(g->gpu->run, &fault);
	}
	if (v && !g->gpu->lost)
		g->gpu->run->cuda.free(v);
	free(host);
	return err == -ENOMEM ? 0 : err;
}
