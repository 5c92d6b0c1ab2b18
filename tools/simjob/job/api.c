// SPDX-License-Identifier: Apache-2.0
/* Opening the stand-ins and reading out their symbols. */
#include "tools/simjob/job/api.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct symbol_slot {
	const char *name;
	size_t offset;
};

#define SLOT(NAME) { #NAME, offsetof(struct api, NAME) },

static const struct symbol_slot cuda_slots[] = { CUDA_CALLS(SLOT) };
static const struct symbol_slot nccl_slots[] = { NCCL_CALLS(SLOT) };
static const struct symbol_slot torch_slots[] = { TORCH_CALLS(SLOT) };
static const struct symbol_slot torch_cuda_slots[] = { TORCH_CUDA_CALLS(SLOT) };

#ifdef SIM_NCCL_LINKED
#define LINKED(NAME) NAME,
static void *const nccl_linked[] = { NCCL_CALLS(LINKED) };
#endif

static void library_path(char *ret_path, size_t size, const char *file_name)
{
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[length > 0 ? length : 0] = '\0';
	if (snprintf(ret_path, size, "%s/%s", dirname(self), file_name) >= (int)size)
		ret_path[0] = '\0';
}

static void *library_open(const char *path, int flags)
{
	void *library = dlopen(path, RTLD_NOW | flags);

	if (!library) {
		fprintf(stderr, "simjob: cannot load %s: %s; build it with 'make simjob'\n", path, dlerror());
		exit(1);
	}
	return library;
}

static void symbols_read(struct api *api, void *library, const struct symbol_slot *slots, size_t nr_slots)
{
	size_t i;

	for (i = 0; i < nr_slots; i++) {
		void *symbol = dlsym(library, slots[i].name);

		if (!symbol) {
			fprintf(stderr, "simjob: %s: not in the library; build both again with 'make simjob'\n",
				dlerror());
			exit(1);
		}
		memcpy((char *)api + slots[i].offset, &symbol, sizeof(symbol));
	}
}

/* The one that is linked into the binary, where there is one and no other is asked for. */
static bool nccl_take_linked(struct api *api, const char *nccl_path)
{
#ifdef SIM_NCCL_LINKED
	size_t i;

	for (i = 0; i < sizeof(nccl_slots) / sizeof(nccl_slots[0]) && !nccl_path; i++)
		memcpy((char *)api + nccl_slots[i].offset, &nccl_linked[i], sizeof(void *));
	return !nccl_path;
#else
	(void)api, (void)nccl_path;
	return false;
#endif
}

/* Local and bound to itself: what one copy calls must not end up in another, which has the same names. */
static void nccl_open(struct api *api, const char *path)
{
	symbols_read(api, library_open(path, RTLD_LOCAL | RTLD_DEEPBIND), nccl_slots,
		     sizeof(nccl_slots) / sizeof(nccl_slots[0]));
}

void api_open(struct api *api, const char *nccl_path)
{
	char path[PATH_MAX];

	library_path(path, sizeof(path), "libcuda.so.1");
	symbols_read(api, library_open(path, RTLD_GLOBAL), cuda_slots, sizeof(cuda_slots) / sizeof(cuda_slots[0]));
	if (nccl_take_linked(api, nccl_path))
		return;
	library_path(path, sizeof(path), "libnccl.so.2");
	nccl_open(api, nccl_path ? nccl_path : path);
}

void api_open_torch(struct api *api)
{
	char path[PATH_MAX];

	library_path(path, sizeof(path), "libtorch_cpu.so");
	symbols_read(api, library_open(path, RTLD_LOCAL), torch_slots, sizeof(torch_slots) / sizeof(torch_slots[0]));
	library_path(path, sizeof(path), "libtorch_cuda.so");
	symbols_read(api, library_open(path, RTLD_LOCAL), torch_cuda_slots,
		     sizeof(torch_cuda_slots) / sizeof(torch_cuda_slots[0]));
}

void api_open_second(struct api *api, const struct api *first, const char *nccl_path)
{
	*api = *first;
	if (nccl_path)
		nccl_open(api, nccl_path);
}

void cuda_check(const struct api *api, CUresult result, const char *what)
{
	const char *name = NULL;

	if (result == CUDA_SUCCESS)
		return;
	api->cuGetErrorName(result, &name);
	fprintf(stderr, "simjob: %s in pid %d failed: %s\n", what, getpid(), name ? name : "unknown error");
	exit(1);
}

void nccl_check(const struct api *api, ncclResult_t result, ncclComm_t comm, const char *what)
{
	if (result == ncclSuccess)
		return;
	fprintf(stderr, "simjob: %s in pid %d failed: %s %s\n", what, getpid(), api->ncclGetErrorString(result),
		api->ncclGetLastError(comm));
	exit(1);
}
