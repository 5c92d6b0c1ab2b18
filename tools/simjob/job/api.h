/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The libraries as a rank sees them: opened when the training starts, as "import torch" does, so that neither the
 * launcher nor the binary's headers know them. One line of the lists is one function.
 */
#ifndef SIMJOB_API_H
#define SIMJOB_API_H

#include "tools/simjob/libcuda/cuda_abi.h"
#include "tools/simjob/libcuda/cuda_sim.h"
#include "tools/simjob/libnccl/nccl_abi.h"
#include "tools/simjob/libtorch/torch_abi.h"

#define CUDA_CALLS(_) \
	_(cuInit) \
	_(cuDeviceGet) \
	_(cuDevicePrimaryCtxRetain) \
	_(cuCtxSetCurrent) \
	_(cuCtxGetDevice) \
	_(cuCtxSynchronize) \
	_(cuStreamCreateWithPriority) \
	_(cuStreamDestroy_v2) \
	_(cuStreamSynchronize) \
	_(cuStreamWaitEvent) \
	_(cuEventCreate) \
	_(cuEventDestroy_v2) \
	_(cuEventRecord) \
	_(cuEventQuery) \
	_(cuModuleGetFunction) \
	_(cuModuleUnload) \
	_(cuLaunchKernel) \
	_(cuLaunchHostFunc) \
	_(cuMemAlloc_v2) \
	_(cuMemFree_v2) \
	_(cuMemcpyHtoDAsync_v2) \
	_(cuMemcpyDtoHAsync_v2) \
	_(cuMemHostAlloc) \
	_(cuMemFreeHost) \
	_(cuMemAddressReserve) \
	_(cuMemAddressFree) \
	_(cuMemCreate) \
	_(cuMemRelease) \
	_(cuMemMap) \
	_(cuMemUnmap) \
	_(cuMemSetAccess) \
	_(cuMemcpyDtoH_v2) \
	_(cuMemcpyHtoD_v2) \
	_(cuMemsetD8Async) \
	_(cuStreamQuery) \
	_(cuEventElapsedTime_v2) \
	_(cuModuleLoadDataEx) \
	_(cuLibraryLoadData) \
	_(cuLibraryUnload) \
	_(cuThreadExchangeStreamCaptureMode) \
	_(cuStreamBeginCapture_v2) \
	_(cuStreamEndCapture) \
	_(cuGraphInstantiateWithFlags) \
	_(cuGraphLaunch) \
	_(cuGraphExecDestroy) \
	_(cuGraphDestroy) \
	_(cuGetErrorName) \
	_(sim_device_settle) \
	_(sim_graphs_scale)

#define NCCL_CALLS(_) \
	_(ncclGetVersion) \
	_(ncclGetUniqueId) \
	_(ncclCommInitRank) \
	_(ncclCommInitRankConfig) \
	_(ncclCommInitRankScalable) \
	_(ncclCommInitAll) \
	_(ncclCommShrink) \
	_(ncclCommAbort) \
	_(ncclCommSplit) \
	_(ncclCommFinalize) \
	_(ncclCommDestroy) \
	_(ncclCommGetAsyncError) \
	_(ncclCommUserRank) \
	_(ncclCommCount) \
	_(ncclGetErrorString) \
	_(ncclGetLastError) \
	_(ncclGroupStart) \
	_(ncclGroupEnd) \
	_(ncclAllReduce) \
	_(ncclBroadcast) \
	_(ncclBcast) \
	_(ncclReduce) \
	_(ncclAllGather) \
	_(ncclReduceScatter) \
	_(ncclAlltoAll) \
	_(ncclGather) \
	_(ncclScatter) \
	_(ncclSend) \
	_(ncclRecv) \
	_(sim_comm_hash) \
	_(sim_comm_feed) \
	_(sim_comm_data) \
	_(sim_net_fault) \
	_(sim_net_thread)

/* With --torch. */
#define TORCH_CALLS(_) \
	_(sim_torch_enter) \
	_(sim_torch_leave) \
	_(sim_torch_backward) \
	_(sim_torch_optimizer_begin) \
	_(sim_torch_optimizer_update) \
	_(sim_torch_ddp_forward) \
	_(sim_torch_ddp_backward)
#define TORCH_CUDA_CALLS(_) _(sim_torch_group)

#define DECLARE_CALL(NAME) __typeof__(NAME) *NAME;

struct api {
	CUDA_CALLS(DECLARE_CALL)
	NCCL_CALLS(DECLARE_CALL)
	TORCH_CALLS(DECLARE_CALL)
	TORCH_CUDA_CALLS(DECLARE_CALL)
};

/* Opens the two libraries next to the binary (@nccl_path: another libnccl). Exits with 1 and the reason on failure. */
void api_open(struct api *api, const char *nccl_path);
/* The same with the libnccl at @nccl_path, a copy beside the first one; NULL: no other. */
void api_open_second(struct api *api, const struct api *first, const char *nccl_path);

/* Opens the libtorch next to the binary, too. */
void api_open_torch(struct api *api);

/* End the process with object and cause when a call failed. */
void cuda_check(const struct api *api, CUresult result, const char *what);
void nccl_check(const struct api *api, ncclResult_t result, ncclComm_t comm, const char *what);

#endif
