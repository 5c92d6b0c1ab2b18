// SPDX-License-Identifier: Apache-2.0
/*
 * Errors on request: SIM_CUDA_FAIL="cuMemAlloc_v2:after=5:error=2:rank=1,cuEventQuery:error=719" makes the call fail
 * once, after that many that went well, in the processes whose RANK it is (all, when left out).
 */
#include "tools/simjob/libcuda/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INJECTIONS 16

struct injection {
	char name[64];
	_Atomic int calls_before; /* negative: over */
	CUresult error;
};

static struct injection injections[MAX_INJECTIONS];
static int nr_injections;

static bool pair_apply(struct injection *injection, const char *pair, bool *is_mine)
{
	const char *rank = getenv("RANK");
	int value;

	if (sscanf(pair, "after=%d", &value) == 1)
		injection->calls_before = value;
	else if (sscanf(pair, "error=%d", &value) == 1)
		injection->error = value;
	else if (sscanf(pair, "rank=%d", &value) == 1)
		*is_mine = rank && atoi(rank) == value;
	else
		return false;
	return true;
}

static void injection_parse(char *spec)
{
	struct injection injection = { .error = CUDA_ERROR_OUT_OF_MEMORY };
	char *pair = strsep(&spec, ":");
	bool is_mine = true;

	snprintf(injection.name, sizeof(injection.name), "%s", pair);
	while (spec) {
		pair = strsep(&spec, ":");
		if (!pair_apply(&injection, pair, &is_mine)) {
			fprintf(stderr, "libcuda stand-in: SIM_CUDA_FAIL: '%s' is not after=, error= or rank=\n", pair);
			abort();
		}
	}
	if (is_mine && nr_injections < MAX_INJECTIONS)
		injections[nr_injections++] = injection;
}

static void injections_read(void)
{
	const char *specs = getenv("SIM_CUDA_FAIL");
	char *copy = specs ? strdup(specs) : NULL, *rest = copy;

	while (rest)
		injection_parse(strsep(&rest, ","));
	free(copy);
}

CUresult call_injected_error(const char *name)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int i;

	pthread_once(&once, injections_read);
	for (i = 0; i < nr_injections; i++) {
		if (!strcmp(injections[i].name, name) && injections[i].calls_before >= 0 &&
		    atomic_fetch_sub(&injections[i].calls_before, 1) == 0)
			return injections[i].error;
	}
	return CUDA_SUCCESS;
}
