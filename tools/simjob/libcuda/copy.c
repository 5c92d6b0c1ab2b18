// SPDX-License-Identifier: Apache-2.0
/*
 * Copies and sets: they take their time on a stream and move nothing; what a copy brings to the host is zeroes. The
 * blocking ones run on the default stream (in the _ptds flavour each thread's own, which is the same here) and return
 * when it is through. Where memory has contents, a blocking copy to the device returns before: see peer_put().
 */
#include "tools/simjob/libcuda/device.h"

#include <string.h>

#define COPY_LATENCY_NS 8000
#define COPY_BYTES_PER_US 25000 /* a PCIe 4.0 x16 link, 25 GB/s */
#define SET_LATENCY_NS 2000
#define DEVICE_BYTES_PER_US 1500000 /* 1.5 TB/s */

struct transfer {
	const char *name; /* of the call */
	void *host;       /* what is written on the host, NULL: nothing */
	CUdeviceptr from; /* of a blocking copy, where memory has contents */
	size_t size_bytes;
	CUstream stream;
	bool within_device, is_blocking;
};

static uint64_t transfer_ns(const struct transfer *transfer)
{
	uint64_t latency_ns = transfer->within_device ? SET_LATENCY_NS : COPY_LATENCY_NS;
	uint64_t bytes_per_us = transfer->within_device ? DEVICE_BYTES_PER_US : COPY_BYTES_PER_US;

	return latency_ns + transfer->size_bytes * NSEC_PER_USEC / bytes_per_us;
}

static CUresult transfer_run(const struct transfer *transfer)
{
	struct sim_work work = { .kind = WORK_COPY, .duration_ns = transfer_ns(transfer) };
	CUresult res = call_injected_error(transfer->name);
	struct CUstream_st *stream;

	if (!res && stream_is_legacy(transfer->stream))
		res = capture_permits_legacy_stream();
	if (!res && transfer->is_blocking)
		res = capture_permits_unsafe_call();
	if (res)
		return res;
	stream = stream_resolve(transfer->stream);
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (transfer->is_blocking && compute_is_on()) {
		res = compute_lost();
		res = res ? res : stream_synchronize(transfer->stream);
		if (res)
			return res;
		memcpy(transfer->host, (void *)(uintptr_t)transfer->from, transfer->size_bytes);
	} else if (transfer->host) {
		memset(transfer->host, 0, transfer->size_bytes);
	}
	res = stream_enqueue(stream, &work);
	return res || !transfer->is_blocking ? res : stream_synchronize(transfer->stream);
}

#define DEFINE_ASYNC_CALLS(SUFFIX) \
	SIM_EXPORT CUresult cuMemcpyAsync##SUFFIX(CUdeviceptr to, CUdeviceptr from, size_t size_bytes, \
						  CUstream stream) \
	{ \
		(void)to, (void)from; \
		return transfer_run(&(struct transfer){ .name = __func__, \
							.host = NULL, \
							.size_bytes = size_bytes, \
							.stream = stream, \
							.within_device = true }); \
	} \
	SIM_EXPORT CUresult cuMemcpyDtoDAsync_v2##SUFFIX(CUdeviceptr to, CUdeviceptr from, size_t size_bytes, \
							 CUstream stream) \
	{ \
		(void)to, (void)from; \
		return transfer_run(&(struct transfer){ .name = __func__, \
							.host = NULL, \
							.size_bytes = size_bytes, \
							.stream = stream, \
							.within_device = true }); \
	} \
	SIM_EXPORT CUresult cuMemcpyHtoDAsync_v2##SUFFIX(CUdeviceptr to, const void *from, size_t size_bytes, \
							 CUstream stream) \
	{ \
		if (compute_is_on()) \
			return peer_host_copy((void *)(uintptr_t)to, from, size_bytes, stream); \
		return transfer_run(&(struct transfer){ .name = __func__, \
							.host = NULL, \
							.size_bytes = size_bytes, \
							.stream = stream, \
							.within_device = false }); \
	} \
	SIM_EXPORT CUresult cuMemcpyDtoHAsync_v2##SUFFIX(void *to, CUdeviceptr from, size_t size_bytes, \
							 CUstream stream) \
	{ \
		if (compute_is_on()) \
			return peer_host_copy(to, (void *)(uintptr_t)from, size_bytes, stream); \
		return transfer_run(&(struct transfer){ .name = __func__, \
							.host = to, \
							.size_bytes = size_bytes, \
							.stream = stream, \
							.within_device = false }); \
	} \
	SIM_EXPORT CUresult cuMemsetD8Async##SUFFIX(CUdeviceptr to, unsigned char value, size_t count, \
						    CUstream stream) \
	{ \
		(void)to, (void)value; \
		return transfer_run(&(struct transfer){ .name = __func__, \
							.host = NULL, \
							.size_bytes = count, \
							.stream = stream, \
							.within_device = true }); \
	} \
	SIM_EXPORT CUresult cuMemsetD32Async##SUFFIX(CUdeviceptr to, unsigned int value, size_t count, \
						     CUstream stream) \
	{ \
		if (compute_is_on()) \
			return compute_set_words(to, value, count, stream); \
		return transfer_run(&(struct transfer){ .name = __func__, \
							.host = NULL, \
							.size_bytes = 4 * count, \
							.stream = stream, \
							.within_device = true }); \
	}

DEFINE_ASYNC_CALLS()
DEFINE_ASYNC_CALLS(_ptsz)

#define DEFINE_BLOCKING_CALLS(SUFFIX) \
	SIM_EXPORT CUresult cuMemcpyDtoH_v2##SUFFIX(void *to, CUdeviceptr from, size_t size_bytes) \
	{ \
		return transfer_run(&(struct transfer){ \
			.name = __func__, .host = to, .from = from, .size_bytes = size_bytes, .is_blocking = true }); \
	} \
	SIM_EXPORT CUresult cuMemcpyHtoD_v2##SUFFIX(CUdeviceptr to, const void *from, size_t size_bytes) \
	{ \
		if (compute_is_on()) \
			return peer_put((void *)(uintptr_t)to, from, size_bytes); \
		return transfer_run( \
			&(struct transfer){ .name = __func__, .size_bytes = size_bytes, .is_blocking = true }); \
	}

DEFINE_BLOCKING_CALLS()
DEFINE_BLOCKING_CALLS(_ptds)
