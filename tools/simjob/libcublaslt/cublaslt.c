// SPDX-License-Identifier: Apache-2.0
/*
 * A stand-in for libcublasLt: the calls that a matrix multiplication takes, C = transposed(A) * B in column order, done
 * on the CPU, each sum in double in the order of k, so that the same operands give the same bits. It finds the libcuda
 * stand-in that is loaded, and its streams do the work. SIM_CUDA_COMPUTE has to be set. From the environment:
 *     SIM_CUBLASLT_VERSION=130000
 *     SIM_GEMM_NS=100000               what a multiplication takes that has as many columns as rows
 *     SIM_GEMM_FLIP=1:5:7:0            every result of device 1 has bit 0 of row 5, column 7 flipped
 *     SIM_GEMM_FLIP=1:5:7:0:9          only every ninth result
 *     SIM_GEMM_LANES=1:8               device 1 gets every eighth row of column 0 wrong
 */
#include "tools/simjob/libcuda/cuda_sim.h"

#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the library's own header would declare them */

#define EXPORT __attribute__((visibility("default")))
#define SUCCESS 0
#define NOT_INITIALIZED 1
#define INVALID_VALUE 7
#define ALLOC_FAILED 3
#define EXECUTION_FAILED 13
#define NOT_SUPPORTED 15
#define DEVICES_MAX 256

enum { R_32F = 0, R_64F = 1, R_16F = 2, R_8I = 3, R_32I = 10, R_16BF = 14, R_8F_E4M3 = 28 };

struct layout {
	int type;
	uint64_t rows, columns;
	int64_t ld;
};

struct choice {
	uint64_t algo[8];
	size_t workspace_bytes;
	int state;
	float waves;
	int reserved[4];
};

struct job {
	const void *a, *b;
	void *c;
	struct layout a_layout, b_layout, c_layout;
	int device;
	uint64_t number;
};

typedef CUresult (*launch_fn)(CUstream, void (*)(void *), void *, uint64_t);
static launch_fn compute_launch;
static int (*device_current)(void);
static _Atomic uint64_t jobs_of[DEVICES_MAX];

static const char *setting(const char *name, const char *usual)
{
	const char *value = getenv(name);

	return value ? value : usual;
}

/* --- numbers --- */

static unsigned int bytes_of(int type)
{
	switch (type) {
	case R_64F: return 8;
	case R_32F:
	case R_32I: return 4;
	case R_16F:
	case R_16BF: return 2;
	default: return 1;
	}
}

static double e4m3(uint8_t bits)
{
	int exponent = bits >> 3 & 15, mantissa = bits & 7;
	double size = exponent ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9);

	return bits & 128 ? -size : size;
}

static double load(const void *from, int type, uint64_t i)
{
	uint32_t word;
	float f;

	switch (type) {
	case R_64F: return ((const double *)from)[i];
	case R_32F: return ((const float *)from)[i];
	case R_16F: return (double)((const _Float16 *)from)[i]; /* lint: clang 14 has none */
	case R_16BF:
		word = (uint32_t)((const uint16_t *)from)[i] << 16;
		memcpy(&f, &word, 4);
		return f;
	case R_8I: return ((const int8_t *)from)[i];
	case R_32I: return ((const int32_t *)from)[i];
	default: return e4m3(((const uint8_t *)from)[i]);
	}
}

static void store(void *to, int type, uint64_t i, double value)
{
	float f = (float)value;
	uint32_t word;

	switch (type) {
	case R_64F: ((double *)to)[i] = value; break;
	case R_32F: ((float *)to)[i] = f; break;
	case R_16F: ((_Float16 *)to)[i] = (_Float16)f; break; /* lint: clang 14 has none */
	case R_16BF:                                          /* to the nearest, ties to even */
		memcpy(&word, &f, 4);
		((uint16_t *)to)[i] = (word + 0x7fff + (word >> 16 & 1)) >> 16;
		break;
	default: ((int32_t *)to)[i] = (int32_t)value; break;
	}
}

/* --- a multiplication --- */

static void bit_flip(const struct job *job, uint64_t row, uint64_t column, unsigned int bit)
{
	((unsigned char *)job->c)[(column * job->c_layout.ld + row) * bytes_of(job->c_layout.type) + bit / 8] ^=
		1 << bit % 8;
}

static void faults_make(const struct job *job)
{
	const char *flip = getenv("SIM_GEMM_FLIP"), *lanes = getenv("SIM_GEMM_LANES");
	unsigned long row, column, every = 1;
	unsigned int bit, period;
	int device;

	if (flip && sscanf(flip, "%d:%lu:%lu:%u:%lu", &device, &row, &column, &bit, &every) >= 4 &&
	    device == job->device && job->number % every == 0)
		bit_flip(job, row, column, bit);
	if (lanes && sscanf(lanes, "%d:%u", &device, &period) == 2 && device == job->device)
		for (row = 0; row < job->c_layout.rows; row += period)
			bit_flip(job, row, 0, 3);
}

static double *matrix_load(const void *from, const struct layout *layout)
{
	uint64_t n = layout->columns * layout->ld, i;
	double *to = malloc(n * sizeof(*to));

	for (i = 0; to && i < n; i++)
		to[i] = load(from, layout->type, i); /* lint: not without memory */
	return to;
}

/* Of one column: each sum in the order of k, as a product is summed; the rows beside each other, which the compiler
 * makes vectors of. */
__attribute__((optimize("O3"))) static void column_sum(double *restrict sums, const double *restrict rows, uint64_t n,
						       const double *restrict column, uint64_t depth)
{
	uint64_t i, k;

	memset(sums, 0, n * sizeof(*sums));
	for (k = 0; k < depth; k++)
		for (i = 0; i < n; i++)
			sums[i] += rows[k * n + i] * column[k];
}

/* Element k of all rows, then k + 1. */
static double *rows_turn(const double *a, const struct layout *layout, uint64_t n)
{
	double *rows = malloc((n * layout->rows + 1) * sizeof(*rows));
	uint64_t i, k;

	for (i = 0; rows && i < n; i++)
		for (k = 0; k < layout->rows; k++)
			/* lint: every element is loaded */
			rows[k * n + i] = a[i * layout->ld + k];
	return rows;
}

static void job_run(void *arg)
{
	struct job *job = arg;
	uint64_t n = job->c_layout.rows, i, j;
	double *a = matrix_load(job->a, &job->a_layout), *b = matrix_load(job->b, &job->b_layout);
	double *rows = a ? rows_turn(a, &job->a_layout, n) : NULL, *sums = malloc((n + 1) * sizeof(*sums));

	for (j = 0; rows && sums && b && j < job->c_layout.columns; j++) {
		column_sum(sums, rows, n, b + j * job->b_layout.ld, job->a_layout.rows);
		for (i = 0; i < n; i++)
			store(job->c, job->c_layout.type, j * job->c_layout.ld + i, sums[i]);
	}
	faults_make(job);
	free(sums);
	free(rows);
	free(a);
	free(b);
	free(job);
}

EXPORT int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, const struct layout *a_layout,
			  const void *b, const struct layout *b_layout, const void *beta, const void *c,
			  const struct layout *c_layout, void *d, const struct layout *d_layout, const uint64_t *algo,
			  void *workspace, size_t workspace_bytes, void *stream)
{
	struct job *job = malloc(sizeof(*job));
	uint64_t ns = strtoull(setting("SIM_GEMM_NS", "100000"), NULL, 10);
	int error;

	(void)handle, (void)desc, (void)alpha, (void)beta, (void)c, (void)algo, (void)workspace, (void)workspace_bytes;
	if (!job || a_layout->rows != b_layout->rows) {
		free(job);
		return INVALID_VALUE;
	}
	*job = (struct job){ a, b, d, *a_layout, *b_layout, *d_layout, device_current(), 0 };
	job->number = jobs_of[job->device % DEVICES_MAX]++;
	error = compute_launch(stream, job_run, job, ns / c_layout->rows * c_layout->columns);
	if (error)
		free(job);
	return error ? EXECUTION_FAILED : SUCCESS;
}

/* --- handles --- */

EXPORT size_t cublasLtGetVersion(void)
{
	return strtoull(setting("SIM_CUBLASLT_VERSION", "130000"), NULL, 10);
}

EXPORT const char *cublasLtGetStatusName(int status)
{
	return status == EXECUTION_FAILED  ? "CUBLAS_STATUS_EXECUTION_FAILED"
	       : status == NOT_SUPPORTED   ? "CUBLAS_STATUS_NOT_SUPPORTED"
	       : status == NOT_INITIALIZED ? "CUBLAS_STATUS_NOT_INITIALIZED"
					   : "CUBLAS_STATUS";
}

EXPORT int cublasLtCreate(void **ret_handle)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);

	compute_launch = cuda ? (launch_fn)dlsym(cuda, "sim_compute_launch") : NULL;
	device_current = cuda ? (int (*)(void))dlsym(cuda, "sim_device_current") : NULL;
	*ret_handle = (void *)cublasLtCreate;
	return compute_launch && device_current ? SUCCESS : NOT_INITIALIZED;
}

EXPORT int cublasLtDestroy(void *handle)
{
	(void)handle;
	return SUCCESS;
}

EXPORT int cublasLtMatmulDescCreate(void **ret_desc, int compute, int scale)
{
	(void)compute, (void)scale;
	*ret_desc = malloc(1);
	return SUCCESS;
}

EXPORT int cublasLtMatmulDescSetAttribute(void *desc, int attribute, const void *value, size_t bytes)
{
	(void)desc, (void)attribute, (void)value, (void)bytes;
	return SUCCESS;
}

EXPORT int cublasLtMatmulDescDestroy(void *desc)
{
	free(desc);
	return SUCCESS;
}

EXPORT int cublasLtMatrixLayoutCreate(struct layout **ret_layout, int type, uint64_t rows, uint64_t columns, int64_t ld)
{
	*ret_layout = malloc(sizeof(**ret_layout));
	if (!*ret_layout)
		return ALLOC_FAILED;
	**ret_layout = (struct layout){ type, rows, columns, ld };
	return SUCCESS;
}

EXPORT int cublasLtMatrixLayoutDestroy(struct layout *layout)
{
	free(layout);
	return SUCCESS;
}

EXPORT int cublasLtMatmulPreferenceCreate(void **ret_pref)
{
	*ret_pref = malloc(1);
	return SUCCESS;
}

EXPORT int cublasLtMatmulPreferenceSetAttribute(void *pref, int attribute, const void *value, size_t bytes)
{
	(void)pref, (void)attribute, (void)value, (void)bytes;
	return SUCCESS;
}

EXPORT int cublasLtMatmulPreferenceDestroy(void *pref)
{
	free(pref);
	return SUCCESS;
}

EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, const struct layout *a, void *b, void *c, void *d,
					  void *pref, int wanted, struct choice *ret_choices, int *ret_found)
{
	(void)handle, (void)desc, (void)b, (void)c, (void)d, (void)pref;
	if (wanted < 1)
		return INVALID_VALUE;
	*ret_found = 0;
	if (a->type == R_8F_E4M3 && atoi(setting("SIM_NO_FP8", "0")))
		return NOT_SUPPORTED;
	ret_choices[0] = (struct choice){ .algo = { 1 } };
	*ret_found = 1;
	return SUCCESS;
}

EXPORT int cublasLtMatmulAlgoConfigGetAttribute(const void *algo, int attribute, int *ret_value, size_t bytes,
						size_t *ret_written)
{
	(void)algo, (void)attribute;
	*ret_value = 1;
	*ret_written = bytes;
	return SUCCESS;
}
