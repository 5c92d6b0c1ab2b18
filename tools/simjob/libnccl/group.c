// SPDX-License-Identifier: Apache-2.0
/*
 * ncclGroupStart and ncclGroupEnd: nesting, per thread. Nothing is launched, counted or created before the outermost
 * end.
 */
#include "tools/simjob/libnccl/comm.h"

#include <stdlib.h>

struct group {
	int depth;
	ncclResult_t error; /* the first one inside the group; its end reports it and launches nothing */
	struct nccl_op *ops, **ops_tail;
	struct comm_job *jobs, **jobs_tail;
};

static _Thread_local struct group group;

bool group_is_open(void)
{
	return group.depth > 0;
}

void group_add_job(struct comm_job *job)
{
	job->next = NULL;
	*group.jobs_tail = job;
	group.jobs_tail = &job->next;
}

ncclResult_t group_start(void)
{
	if (group.depth++ == 0) {
		group.error = ncclSuccess;
		group.ops = NULL;
		group.ops_tail = &group.ops;
		group.jobs = NULL;
		group.jobs_tail = &group.jobs;
	}
	return ncclSuccess;
}

static void ops_free(struct nccl_op *ops)
{
	while (ops) {
		struct nccl_op *next = ops->next;

		free(ops);
		ops = next;
	}
}

ncclResult_t group_end(void)
{
	ncclResult_t result;

	if (group.depth == 0)
		return ncclInvalidUsage;
	if (--group.depth > 0)
		return ncclSuccess;
	result = group.jobs ? comm_jobs_run(group.jobs) : ncclSuccess;
	if (result == ncclSuccess || result == ncclInProgress)
		result = group.error ? group.error : result;
	if (result != ncclSuccess) {
		ops_free(group.ops);
		return result;
	}
	return ops_launch(group.ops);
}

NCCL_API(ncclResult_t, ncclGroupStart, void);
ncclResult_t ncclGroupStart(void)
{
	return group_start();
}

NCCL_API(ncclResult_t, ncclGroupEnd, void);
ncclResult_t ncclGroupEnd(void)
{
	return group_end();
}

static ncclResult_t op_check(const struct nccl_op *op)
{
	if (comm_check(op->comm) || (unsigned int)op->datatype >= ncclNumTypes)
		return ncclInvalidArgument;
	if (op->comm->creating)
		return ncclInvalidArgument;
	if (op->comm->initState != ncclSuccess || op->comm->revokedFlag)
		return ncclInvalidUsage;
	if (op->root < 0 || op->root >= op->comm->nRanks || op->redop < 0)
		return ncclInvalidArgument;
	return ncclSuccess;
}

/* Alone there is no rank to communicate with: NCCL copies at once, also within a group, and counts nothing. */
static ncclResult_t one_rank_launch(const struct nccl_op *op)
{
	CUresult res = cuda_driver_get()->memcpy_async(0, 0, op->count * datatype_size(op->datatype), op->stream);

	return res == CUDA_SUCCESS ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t op_submit(const struct nccl_op *op)
{
	ncclResult_t result = op_check(op);
	struct nccl_op *copy;

	/* NCCL drops empty collectives; an empty transfer still has to find its peer. */
	if (result == ncclSuccess && op->count == 0 && op->func != FUNC_SEND && op->func != FUNC_RECV)
		return ncclSuccess;
	if (result == ncclSuccess && op->comm->nRanks == 1 && op->func != FUNC_SEND && op->func != FUNC_RECV)
		return one_rank_launch(op);
	result = result == ncclSuccess ? room_operate(op->comm) : result;
	copy = result == ncclSuccess ? malloc(sizeof(*copy)) : NULL;
	if (!copy) {
		if (result == ncclSuccess)
			result = ncclSystemError;
		if (group.depth > 0)
			group.error = result;
		return result;
	}
	*copy = *op;
	copy->next = NULL;
	if (group.depth == 0)
		return ops_launch(copy);
	*group.ops_tail = copy;
	group.ops_tail = &copy->next;
	return ncclSuccess;
}
