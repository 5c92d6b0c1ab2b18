// SPDX-License-Identifier: Apache-2.0
/*
 * PyTorch's caching allocators as the driver sees them: segments of device memory at the start, one more every few
 * steps until the peak is reached, all cached ones given back when there is no more; pinned memory for the batches.
 * With expandable segments one address range grows page by page instead.
 */
#include "tools/simjob/job/rank.h"

#include <stdio.h>
#include <stdlib.h>

#define BUFFER_BYTES (256UL << 20)
#define SEGMENT_BYTES (20UL << 20) /* PyTorch's size for what is larger than 1 MiB */
#define GROW_STEPS 8
#define FIRST_SEGMENTS 2
#define RANGE_BYTES (SEGMENT_BYTES * MAX_SEGMENTS)

static void segment_expand(struct rank *rank)
{
	struct allocator *allocator = &rank->allocator;
	const struct api *api = &rank->api;
	static const int properties[32], access[8]; /* they are not read */
	CUdeviceptr end = allocator->range + allocator->nr_segments * SEGMENT_BYTES;
	CUmemGenericAllocationHandle handle;

	if (!allocator->range) {
		cuda_check(api, api->cuMemAddressReserve(&allocator->range, RANGE_BYTES, 0, 0, 0),
			   "cuMemAddressReserve");
		end = allocator->range;
	}
	cuda_check(api, api->cuMemCreate(&handle, SEGMENT_BYTES, properties, 0), "cuMemCreate");
	cuda_check(api, api->cuMemMap(end, SEGMENT_BYTES, 0, handle, 0), "cuMemMap");
	cuda_check(api, api->cuMemSetAccess(end, SEGMENT_BYTES, access, 1), "cuMemSetAccess");
	allocator->segments[allocator->nr_segments++] = handle;
}

static void segments_free(struct rank *rank)
{
	struct allocator *allocator = &rank->allocator;
	const struct api *api = &rank->api;

	while (allocator->nr_segments > 0) {
		CUdeviceptr segment = allocator->segments[--allocator->nr_segments];

		if (!allocator->range) {
			cuda_check(api, api->cuMemFree_v2(segment), "cuMemFree");
			continue;
		}
		cuda_check(api,
			   api->cuMemUnmap(allocator->range + allocator->nr_segments * SEGMENT_BYTES, SEGMENT_BYTES),
			   "cuMemUnmap");
		cuda_check(api, api->cuMemRelease(segment), "cuMemRelease");
	}
}

/* Out of memory: what is cached goes back, then once more. */
static void segment_allocate(struct rank *rank)
{
	struct allocator *allocator = &rank->allocator;
	const struct api *api = &rank->api;
	CUdeviceptr segment;
	CUresult res = api->cuMemAlloc_v2(&segment, SEGMENT_BYTES);

	if (res == CUDA_ERROR_OUT_OF_MEMORY) {
		segments_free(rank);
		res = api->cuMemAlloc_v2(&segment, SEGMENT_BYTES);
	}
	cuda_check(api, res, "cuMemAlloc");
	allocator->segments[allocator->nr_segments++] = segment;
}

static void allocator_grow(struct rank *rank)
{
	if (rank->allocator.nr_segments == MAX_SEGMENTS)
		return;
	if (rank->options->expandable_segments)
		segment_expand(rank);
	else
		segment_allocate(rank);
}

void allocator_open(struct rank *rank)
{
	const struct api *api = &rank->api;
	int i;

	cuda_check(api, api->cuMemAlloc_v2(&rank->buffer, BUFFER_BYTES), "cuMemAlloc");
	cuda_check(api, api->cuMemHostAlloc((void **)&rank->allocator.pinned, BATCH_BYTES, 0), "cuMemHostAlloc");
	for (i = 0; i < FIRST_SEGMENTS; i++)
		allocator_grow(rank);
}

void allocator_step(struct rank *rank)
{
	if (rank->step % GROW_STEPS == GROW_STEPS - 1)
		allocator_grow(rank);
}

void allocator_close(struct rank *rank)
{
	const struct api *api = &rank->api;

	segments_free(rank);
	if (rank->allocator.range)
		cuda_check(api, api->cuMemAddressFree(rank->allocator.range, RANGE_BYTES), "cuMemAddressFree");
	cuda_check(api, api->cuMemFreeHost(rank->allocator.pinned), "cuMemFreeHost");
	cuda_check(api, api->cuMemFree_v2(rank->buffer), "cuMemFree");
}
