/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of NCCL's ABI that the stand-in exports and the job calls, declared here so that the build needs no NCCL.
 * Names, values, argument order and struct sizes are NVIDIA's (nccl.h of 2.28.9).
 */
#ifndef SIMJOB_NCCL_ABI_H
#define SIMJOB_NCCL_ABI_H

#include "tools/simjob/libcuda/cuda_abi.h"

#define NCCL_VERSION_CODE 22809
#define NCCL_UNIQUE_ID_BYTES 128
#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_CONFIG_UNDEF_INT (-2147483647 - 1)
#define NCCL_SHRINK_ABORT 1

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
typedef CUstream cudaStream_t;

/* Passed by value: on x86-64 it lies on the caller's stack, on aarch64 behind a pointer in a register. */
typedef struct ncclUniqueId {
	char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
	ncclSuccess = 0,
	ncclUnhandledCudaError = 1,
	ncclSystemError = 2,
	ncclInternalError = 3,
	ncclInvalidArgument = 4,
	ncclInvalidUsage = 5,
	ncclRemoteError = 6,
	ncclInProgress = 7,
	ncclNumResults = 8
} ncclResult_t;

typedef enum {
	ncclInt8 = 0,
	ncclUint8 = 1,
	ncclInt32 = 2,
	ncclUint32 = 3,
	ncclInt64 = 4,
	ncclUint64 = 5,
	ncclFloat16 = 6,
	ncclFloat32 = 7,
	ncclFloat64 = 8,
	ncclBfloat16 = 9,
	ncclFloat8e4m3 = 10,
	ncclFloat8e5m2 = 11,
	ncclNumTypes = 12
} ncclDataType_t;

typedef enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4, ncclNumOps = 5 } ncclRedOp_t;

typedef struct ncclConfig_v22800 {
	size_t size;
	unsigned int magic;
	unsigned int version;
	int blocking;
	int cgaClusterSize;
	int minCTAs;
	int maxCTAs;
	const char *netName;
	int splitShare;
	int trafficClass;
	const char *commName;
	int collnetEnable;
	int CTAPolicy;
	int shrinkShare;
	int nvlsCTAs;
	int nChannelsPerNetPeer;
	int nvlinkCentricSched;
} ncclConfig_t;

#define NCCL_CONFIG_MAGIC 0xcafebeef

ncclResult_t ncclGetUniqueId(ncclUniqueId *ret_id);
ncclResult_t ncclCommInitRank(ncclComm_t *newcomm, int nranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *newcomm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config);
ncclResult_t ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int rank, int nr_ids, ncclUniqueId *ids,
				      ncclConfig_t *config);
ncclResult_t ncclCommInitAll(ncclComm_t *comms, int nr_devices, const int *devices);
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config);
ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int nr_excluded, ncclComm_t *newcomm, ncclConfig_t *config,
			    int flags);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags);
ncclResult_t ncclGetVersion(int *ret_version);
ncclResult_t ncclCommCount(const ncclComm_t comm, int *ret_count);
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *ret_device);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *ret_rank);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *ret_error);
const char *ncclGetErrorString(ncclResult_t result);
const char *ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buffer, size_t size_bytes, void **ret_handle);
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle);
ncclResult_t ncclMemAlloc(void **ret_address, size_t size_bytes);
ncclResult_t ncclMemFree(void *address);
ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclRedOp_t redop,
			   ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t datatype, int root,
			   ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
		       cudaStream_t stream);
ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclRedOp_t redop,
			int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclComm_t comm,
			   cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclRedOp_t redop,
			       ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclComm_t comm,
			  cudaStream_t stream);
ncclResult_t ncclGather(const void *send, void *recv, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
			cudaStream_t stream);
ncclResult_t ncclScatter(const void *send, void *recv, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
			 cudaStream_t stream);
ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
		      cudaStream_t stream);
ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
		      cudaStream_t stream);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

/* Not NCCL's: the job's own log needs the hash, and NCCL has no getter for it. */
uint64_t sim_comm_hash(const struct ncclComm *comm);
/* Simulated data (mix.h): @word goes into what the rank contributes from now on; and what all has come to, at rest. */
void sim_comm_feed(struct ncclComm *comm, uint64_t word);
uint64_t sim_comm_data(const struct ncclComm *comm);
/*
 * With SIM_NCCL_NET set: enum net_fault (proxy.h) strikes this rank in the middle of the collective that is called
 * next, in what it sends to the next rank. The channel, or -1: the communicator has no network. And the progress
 * thread's tid.
 */
int sim_net_fault(struct ncclComm *comm, int how, uint64_t draw);
int sim_net_thread(const struct ncclComm *comm);

#endif
