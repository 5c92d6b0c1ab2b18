/* SPDX-License-Identifier: Apache-2.0
 *
 * cublaslt_abi.h - the part of cuBLASLt's interface that the tests call, declared anew from NVIDIA's public cuBLAS
 * reference (numbers as in cublasLt.h of 11.8 to 13.0, where they are the same).
 */
#ifndef STRESS_CUBLASLT_ABI_H
#define STRESS_CUBLASLT_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { /* cublasStatus_t */
       CUBLAS_SUCCESS = 0,
       CUBLAS_NOT_INITIALIZED = 1,
       CUBLAS_ALLOC_FAILED = 3,
       CUBLAS_ARCH_MISMATCH = 8,
       CUBLAS_EXECUTION_FAILED = 13,
       CUBLAS_NOT_SUPPORTED = 15,
};
enum { CUBLAS_OP_T = 1 };
enum { /* cudaDataType_t */
       CUDA_R_32F = 0,
       CUDA_R_64F = 1,
       CUDA_R_16F = 2,
       CUDA_R_8I = 3,
       CUDA_R_32I = 10,
       CUDA_R_16BF = 14,
       CUDA_R_8F_E4M3 = 28,
};
enum { /* cublasComputeType_t */
       CUBLAS_COMPUTE_32F = 68,
       CUBLAS_COMPUTE_64F = 70,
       CUBLAS_COMPUTE_32I = 72,
       CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
};
enum { CUBLASLT_DESC_TRANSA = 3 };
enum { CUBLASLT_PREF_MAX_WORKSPACE_BYTES = 1 };
enum { CUBLASLT_ALGO_SPLITK_NUM = 2 };

struct cublaslt_algo { /* cublasLtMatmulAlgo_t: may be copied and used with another handle */
	uint64_t data[8];
};

struct cublaslt_choice { /* cublasLtMatmulHeuristicResult_t */
	struct cublaslt_algo algo;
	size_t workspace_bytes;
	int state;
	float waves;
	int reserved[4];
};

typedef void *cublaslt_handle; /* a library handle, a descriptor, a layout or a preference */

/* X(field, symbol, required, arguments) */
/* clang-format off */
#define CUBLASLT_FUNCTIONS(X) \
	X(version, "cublasLtGetVersion", true, size_t, (void)) \
	X(create, "cublasLtCreate", true, int, (cublaslt_handle *handle)) \
	X(destroy, "cublasLtDestroy", true, int, (cublaslt_handle handle)) \
	X(desc_create, "cublasLtMatmulDescCreate", true, int, (cublaslt_handle *desc, int compute, int scale)) \
	X(desc_set, "cublasLtMatmulDescSetAttribute", true, int, \
	  (cublaslt_handle desc, int attribute, const void *value, size_t bytes)) \
	X(desc_destroy, "cublasLtMatmulDescDestroy", true, int, (cublaslt_handle desc)) \
	X(layout_create, "cublasLtMatrixLayoutCreate", true, int, \
	  (cublaslt_handle *layout, int type, uint64_t rows, uint64_t columns, int64_t ld)) \
	X(layout_destroy, "cublasLtMatrixLayoutDestroy", true, int, (cublaslt_handle layout)) \
	X(pref_create, "cublasLtMatmulPreferenceCreate", true, int, (cublaslt_handle *pref)) \
	X(pref_set, "cublasLtMatmulPreferenceSetAttribute", true, int, \
	  (cublaslt_handle pref, int attribute, const void *value, size_t bytes)) \
	X(pref_destroy, "cublasLtMatmulPreferenceDestroy", true, int, (cublaslt_handle pref)) \
	X(heuristic, "cublasLtMatmulAlgoGetHeuristic", true, int, \
	  (cublaslt_handle handle, cublaslt_handle desc, cublaslt_handle a, cublaslt_handle b, cublaslt_handle c, \
	   cublaslt_handle d, cublaslt_handle pref, int wanted, struct cublaslt_choice *choices, int *found)) \
	X(algo_get, "cublasLtMatmulAlgoConfigGetAttribute", false, int, \
	  (const struct cublaslt_algo *algo, int attribute, void *value, size_t bytes, size_t *written)) \
	X(matmul, "cublasLtMatmul", true, int, \
	  (cublaslt_handle handle, cublaslt_handle desc, const void *alpha, const void *a, cublaslt_handle a_layout, \
	   const void *b, cublaslt_handle b_layout, const void *beta, const void *c, cublaslt_handle c_layout, \
	   void *d, cublaslt_handle d_layout, const struct cublaslt_algo *algo, void *workspace, \
	   size_t workspace_bytes, void *stream)) \
	X(status_name, "cublasLtGetStatusName", false, const char *, (int status))
/* clang-format on */

struct cublaslt {
#define X(field, symbol, required, type, args) type(*field) args;
	CUBLASLT_FUNCTIONS(X)
#undef X
};

#endif
