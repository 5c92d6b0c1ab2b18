// SPDX-License-Identifier: Apache-2.0
/*
 * What a communicator says about itself, the library's version and error texts, memory and registration.
 */
#include "tools/simjob/libnccl/mix.h"
#include "tools/simjob/libnccl/comm.h"

#include <stdlib.h>

NCCL_API(ncclResult_t, ncclGetVersion, int *ret_version);
ncclResult_t ncclGetVersion(int *ret_version)
{
	const char *set = getenv("SIM_NCCL_VERSION");

	if (!ret_version)
		return ncclInvalidArgument;
	*ret_version = set ? atoi(set) : NCCL_VERSION_CODE;
	return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommCount, const ncclComm_t comm, int *ret_count);
ncclResult_t ncclCommCount(const ncclComm_t comm, int *ret_count)
{
	if (comm_check(comm) || !ret_count)
		return ncclInvalidArgument;
	*ret_count = comm->nRanks;
	return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommCuDevice, const ncclComm_t comm, int *ret_device);
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *ret_device)
{
	if (comm_check(comm) || !ret_device)
		return ncclInvalidArgument;
	*ret_device = comm->cudaDev;
	return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommUserRank, const ncclComm_t comm, int *ret_rank);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *ret_rank)
{
	if (comm_check(comm) || !ret_rank)
		return ncclInvalidArgument;
	*ret_rank = comm->rank;
	return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t *ret_error);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *ret_error)
{
	if (comm_check(comm) || !ret_error)
		return ncclInvalidArgument;
	*ret_error = __atomic_load_n(&comm->asyncResult, __ATOMIC_ACQUIRE);
	return ncclSuccess;
}

/* Texts as NCCL's, which users know and grep for. */
static const char *const error_texts[] = {
	[ncclSuccess] = "no error",
	[ncclUnhandledCudaError] = "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
	[ncclSystemError] = "unhandled system error (run with NCCL_DEBUG=INFO for details)",
	[ncclInternalError] = "internal error - please report this issue to the NCCL developers",
	[ncclInvalidArgument] = "invalid argument (run with NCCL_DEBUG=WARN for details)",
	[ncclInvalidUsage] = "invalid usage (run with NCCL_DEBUG=WARN for details)",
	[ncclRemoteError] = "remote process exited or there was a network error",
	[ncclInProgress] = "NCCL operation in progress",
};

NCCL_API(const char *, ncclGetErrorString, ncclResult_t result);
const char *ncclGetErrorString(ncclResult_t result)
{
	return (unsigned int)result < ncclNumResults ? error_texts[result] : "unknown result code";
}

NCCL_API(const char *, ncclGetLastError, ncclComm_t comm);
const char *ncclGetLastError(ncclComm_t comm)
{
	return comm_check(comm) ? comm_last_error : comm->last_error;
}

__attribute__((visibility("default"))) uint64_t sim_comm_hash(const struct ncclComm *comm)
{
	return comm->commHash;
}

__attribute__((visibility("default"))) void sim_comm_feed(struct ncclComm *comm, uint64_t word)
{
	comm->feed = mix(comm->feed, word);
}

__attribute__((visibility("default"))) uint64_t sim_comm_data(const struct ncclComm *comm)
{
	return comm->data;
}

struct registration {
	void *buffer;
	size_t size_bytes;
};

NCCL_API(ncclResult_t, ncclCommRegister, const ncclComm_t comm, void *buffer, size_t size_bytes, void **ret_handle);
ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buffer, size_t size_bytes, void **ret_handle)
{
	struct registration *registration;

	if (comm_check(comm) || !buffer || !size_bytes || !ret_handle)
		return ncclInvalidArgument;
	registration = malloc(sizeof(*registration));
	if (!registration)
		return ncclSystemError;
	*registration = (struct registration){ .buffer = buffer, .size_bytes = size_bytes };
	*ret_handle = registration;
	return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommDeregister, const ncclComm_t comm, void *handle);
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
	if (comm_check(comm))
		return ncclInvalidArgument;
	free(handle);
	return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclMemAlloc, void **ret_address, size_t size_bytes);
ncclResult_t ncclMemAlloc(void **ret_address, size_t size_bytes)
{
	const struct cuda_driver *driver = cuda_driver_get();
	CUdeviceptr address;

	if (!ret_address)
		return ncclInvalidArgument;
	if (!driver || driver->mem_alloc(&address, size_bytes) != CUDA_SUCCESS)
		return ncclUnhandledCudaError;
	*ret_address = (void *)(uintptr_t)address;
	return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclMemFree, void *address);
ncclResult_t ncclMemFree(void *address)
{
	const struct cuda_driver *driver = cuda_driver_get();

	if (!driver || driver->mem_free((CUdeviceptr)(uintptr_t)address) != CUDA_SUCCESS)
		return ncclUnhandledCudaError;
	return ncclSuccess;
}
