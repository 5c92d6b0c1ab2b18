// SPDX-License-Identifier: Apache-2.0
/*
 * The operations' entry points. As in NCCL each one describes itself and hands over; AlltoAll, Gather and Scatter do
 * not call Send and Recv by their exported names, and only Bcast calls another entry point.
 */
#include "tools/simjob/libnccl/comm.h"

NCCL_API(ncclResult_t, ncclAllReduce, const void *send, void *recv, size_t count, ncclDataType_t datatype,
	 ncclRedOp_t redop, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclRedOp_t redop,
			   ncclComm_t comm, cudaStream_t stream)
{
	return op_submit(&(struct nccl_op){ .func = FUNC_ALL_REDUCE,
					    .send = send,
					    .recv = recv,
					    .count = count,
					    .datatype = datatype,
					    .redop = redop,
					    .comm = comm,
					    .stream = stream });
}

NCCL_API(ncclResult_t, ncclBroadcast, const void *send, void *recv, size_t count, ncclDataType_t datatype, int root,
	 ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t datatype, int root,
			   ncclComm_t comm, cudaStream_t stream)
{
	return op_submit(&(struct nccl_op){ .func = FUNC_BROADCAST,
					    .send = send,
					    .recv = recv,
					    .count = count,
					    .datatype = datatype,
					    .root = root,
					    .comm = comm,
					    .stream = stream });
}

NCCL_API(ncclResult_t, ncclBcast, void *buffer, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
	 cudaStream_t stream);
ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
		       cudaStream_t stream)
{
	return ncclBroadcast(buffer, buffer, count, datatype, root, comm, stream);
}

NCCL_API(ncclResult_t, ncclReduce, const void *send, void *recv, size_t count, ncclDataType_t datatype,
	 ncclRedOp_t redop, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclRedOp_t redop,
			int root, ncclComm_t comm, cudaStream_t stream)
{
	return op_submit(&(struct nccl_op){ .func = FUNC_REDUCE,
					    .send = send,
					    .recv = recv,
					    .count = count,
					    .datatype = datatype,
					    .redop = redop,
					    .root = root,
					    .comm = comm,
					    .stream = stream });
}

NCCL_API(ncclResult_t, ncclAllGather, const void *send, void *recv, size_t count, ncclDataType_t datatype,
	 ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclComm_t comm,
			   cudaStream_t stream)
{
	return op_submit(&(struct nccl_op){ .func = FUNC_ALL_GATHER,
					    .send = send,
					    .recv = recv,
					    .count = count,
					    .datatype = datatype,
					    .comm = comm,
					    .stream = stream });
}

NCCL_API(ncclResult_t, ncclReduceScatter, const void *send, void *recv, size_t count, ncclDataType_t datatype,
	 ncclRedOp_t redop, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclRedOp_t redop,
			       ncclComm_t comm, cudaStream_t stream)
{
	return op_submit(&(struct nccl_op){ .func = FUNC_REDUCE_SCATTER,
					    .send = send,
					    .recv = recv,
					    .count = count,
					    .datatype = datatype,
					    .redop = redop,
					    .comm = comm,
					    .stream = stream });
}

NCCL_API(ncclResult_t, ncclAlltoAll, const void *send, void *recv, size_t count, ncclDataType_t datatype,
	 ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclComm_t comm,
			  cudaStream_t stream)
{
	return op_submit(&(struct nccl_op){ .func = FUNC_ALL_TO_ALL,
					    .send = send,
					    .recv = recv,
					    .count = count,
					    .datatype = datatype,
					    .comm = comm,
					    .stream = stream });
}

NCCL_API(ncclResult_t, ncclGather, const void *send, void *recv, size_t count, ncclDataType_t datatype, int root,
	 ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclGather(const void *send, void *recv, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
			cudaStream_t stream)
{
	return op_submit(&(struct nccl_op){ .func = FUNC_GATHER,
					    .send = send,
					    .recv = recv,
					    .count = count,
					    .datatype = datatype,
					    .root = root,
					    .comm = comm,
					    .stream = stream });
}

NCCL_API(ncclResult_t, ncclScatter, const void *send, void *recv, size_t count, ncclDataType_t datatype, int root,
	 ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclScatter(const void *send, void *recv, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
			 cudaStream_t stream)
{
	return op_submit(&(struct nccl_op){ .func = FUNC_SCATTER,
					    .send = send,
					    .recv = recv,
					    .count = count,
					    .datatype = datatype,
					    .root = root,
					    .comm = comm,
					    .stream = stream });
}

NCCL_API(ncclResult_t, ncclSend, const void *send, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
	 cudaStream_t stream);
ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
		      cudaStream_t stream)
{
	return op_submit(&(struct nccl_op){ .func = FUNC_SEND,
					    .send = send,
					    .count = count,
					    .datatype = datatype,
					    .root = peer,
					    .comm = comm,
					    .stream = stream });
}

NCCL_API(ncclResult_t, ncclRecv, void *recv, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
	 cudaStream_t stream);
ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream)
{
	return op_submit(&(struct nccl_op){ .func = FUNC_RECV,
					    .recv = recv,
					    .count = count,
					    .datatype = datatype,
					    .root = peer,
					    .comm = comm,
					    .stream = stream });
}
