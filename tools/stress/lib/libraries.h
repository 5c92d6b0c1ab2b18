/* SPDX-License-Identifier: Apache-2.0
 *
 * libraries.h - the driver, NVML, cuBLASLt, NCCL and libibverbs: each opened once, by its table of symbols (X-lists of
 * the _abi.h).
 */
#ifndef STRESS_LIBRARIES_H
#define STRESS_LIBRARIES_H

#include "tools/stress/lib/cublaslt_abi.h"
#include "tools/stress/lib/cuda_abi.h"
#include "tools/stress/lib/library.h"
#include "tools/stress/lib/nccl_abi.h"
#include "tools/stress/lib/nvml_abi.h"
#include "tools/stress/lib/verbs_abi.h"

/* 0, or -ENOENT, -ENOSYS, -ERANGE (another major version) with `why`: object, cause and remedy. */
int libraries_cuda(struct cuda *cuda, char why[LIBRARY_WHY]);
int libraries_nvml(struct nvml *nvml, char why[LIBRARY_WHY]);
/* `path`: where it is, NULL: searched. */
int libraries_cublaslt(struct cublaslt *lt, const char *path, char why[LIBRARY_WHY]);
int libraries_nccl(struct nccl *nccl, const char *path, char why[LIBRARY_WHY]);
int libraries_verbs(struct verbs *verbs, const char *path, char why[LIBRARY_WHY]);

/* "CUDA_ERROR_NOT_READY (600)" in a buffer of the calling thread. */
const char *cuda_error_text(const struct cuda *cuda, int error);
const char *cublaslt_error_text(const struct cublaslt *lt, int status);

#endif
