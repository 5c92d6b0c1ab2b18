/* SPDX-License-Identifier: Apache-2.0
 *
 * libraries.c - see libraries.h.
 */
#include "tools/stress/lib/libraries.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define LT_MAJOR_MIN 11
#define LT_MAJOR_MAX 13
#define NCCL_VERSION_MIN 20700 /* Send and Recv came with it */
#define NCCL_MAJOR_MAX 2

static const struct library_symbol cuda_symbols[] = {
#define X(field, symbol, required, args) { symbol, offsetof(struct cuda, field), required },
	CUDA_FUNCTIONS(X)
#undef X
};
static const struct library_symbol nvml_symbols[] = {
#define X(field, symbol, required, args) { symbol, offsetof(struct nvml, field), required },
	NVML_FUNCTIONS(X)
#undef X
};
static const struct library_symbol lt_symbols[] = {
#define X(field, symbol, required, type, args) { symbol, offsetof(struct cublaslt, field), required },
	CUBLASLT_FUNCTIONS(X)
#undef X
};

static const struct library_symbol nccl_symbols[] = {
#define X(field, symbol, required, type, args) { symbol, offsetof(struct nccl, field), required },
	NCCL_FUNCTIONS(X)
#undef X
};

static const struct library_symbol verbs_symbols[] = {
#define X(field, symbol, required, type, args) { symbol, offsetof(struct verbs, field), required },
	VERBS_FUNCTIONS(X)
#undef X
};

static int explained(int err, char why[LIBRARY_WHY], const char *object, const char *remedy)
{
	char cause[LIBRARY_WHY];

	if (err) {
		snprintf(cause, sizeof(cause), "%.200s", why);
		snprintf(why, LIBRARY_WHY, "%.60s cannot be used: %.220s: %.200s", object, cause, remedy);
	}
	return err;
}

int libraries_cuda(struct cuda *cuda, char why[LIBRARY_WHY])
{
	static const char *const names[] = { "libcuda.so.1", NULL };
	int err = library_open(names, cuda_symbols, COUNT(cuda_symbols), cuda, why);

	return explained(err, why, "the CUDA driver (libcuda.so.1)",
			 "install NVIDIA's driver on this host; in a container, start it with the GPUs "
			 "(--gpus all)");
}

int libraries_nvml(struct nvml *nvml, char why[LIBRARY_WHY])
{
	const char *own = getenv("RANKTRACE_NVML");
	const char *const names[] = { own ? own : "libnvidia-ml.so.1", NULL };
	int err = library_open(names, nvml_symbols, COUNT(nvml_symbols), nvml, why);

	return explained(err, why, "NVML (libnvidia-ml.so.1)",
			 "it comes with NVIDIA's driver; in a container, NVIDIA_DRIVER_CAPABILITIES needs 'utility'");
}

static int version_check(const struct cublaslt *lt, char why[LIBRARY_WHY])
{
	size_t version = lt->version();
	size_t major = version >= 100000 ? version / 10000 : version / 1000; /* 110803, 120103; older: 10204 */

	if (version >= LT_MAJOR_MIN * 10000 && major <= LT_MAJOR_MAX)
		return 0;
	snprintf(why, LIBRARY_WHY,
		 "cuBLASLt is version %zu, known are %d to %d: give one of these with --cublaslt FILE", version,
		 LT_MAJOR_MIN, LT_MAJOR_MAX);
	return -ERANGE;
}

int libraries_cublaslt(struct cublaslt *lt, const char *path, char why[LIBRARY_WHY])
{
	static const char *const searched[] = {
		"libcublasLt.so.13",
		"libcublasLt.so.12",
		"libcublasLt.so.11",
		"/usr/local/cuda/lib64/libcublasLt.so",
		"/usr/local/cuda/lib/libcublasLt.so",
		NULL,
	};
	const char *const given[] = { path, NULL };
	int err = library_open(path ? given : searched, lt_symbols, COUNT(lt_symbols), lt, why);

	err = explained(err, why, "cuBLASLt (libcublasLt.so.13, .12 or .11)",
			"install CUDA's cuBLAS, or say where it is with --cublaslt FILE (PyTorch has one in "
			"site-packages/nvidia)");
	return err ? err : version_check(lt, why);
}

static int nccl_check(const struct nccl *nccl, char why[LIBRARY_WHY])
{
	int version = 0, error = nccl->version(&version);

	if (!error && version >= NCCL_VERSION_MIN && version / 10000 <= NCCL_MAJOR_MAX)
		return 0;
	snprintf(why, LIBRARY_WHY,
		 "NCCL says it is version %d, known are those from 2.7 on, of 2: give one with --nccl FILE", version);
	return -ERANGE;
}

int libraries_nccl(struct nccl *nccl, const char *path, char why[LIBRARY_WHY])
{
	const char *const names[] = { path ? path : "libnccl.so.2", NULL };
	int err = library_open(names, nccl_symbols, COUNT(nccl_symbols), nccl, why);

	err = explained(err, why, "NCCL (libnccl.so.2)",
			"install NCCL, or say where it is with --nccl FILE (PyTorch has one in "
			"site-packages/nvidia/nccl/lib)");
	return err ? err : nccl_check(nccl, why);
}

int libraries_verbs(struct verbs *verbs, const char *path, char why[LIBRARY_WHY])
{
	const char *const names[] = { path ? path : "libibverbs.so.1", NULL };
	int err = library_open(names, verbs_symbols, COUNT(verbs_symbols), verbs, why);

	return explained(err, why, "libibverbs (libibverbs.so.1)",
			 "install rdma-core (Debian: libibverbs1 and ibverbs-providers), or say where it is with "
			 "--verbs FILE");
}

const char *cuda_error_text(const struct cuda *cuda, int error)
{
	static _Thread_local char text[96];
	const char *name = NULL;

	if (cuda->error_name)
		cuda->error_name(error, &name);
	snprintf(text, sizeof(text), "%s (%d)", name ? name : "CUDA error", error);
	return text;
}

const char *cublaslt_error_text(const struct cublaslt *lt, int status)
{
	static _Thread_local char text[96];

	snprintf(text, sizeof(text), "%s (%d)", lt->status_name ? lt->status_name(status) : "cuBLAS status", status);
	return text;
}
