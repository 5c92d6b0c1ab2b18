// SPDX-License-Identifier: Apache-2.0
/*
 * The end of a communicator: finalize and destroy wait for its operations, abort and revoke cut them short.
 */
#include "tools/simjob/libnccl/comm.h"

static void plans_wait(struct ncclComm *comm)
{
	uint32_t done;

	while ((done = comm->plans_done) != comm->plans_launched)
		futex_wait(&comm->plans_done, done, 0);
}

static bool plans_are_running(const struct ncclComm *comm)
{
	return comm->plans_done != comm->plans_launched;
}

static void creation_wait(struct ncclComm *comm)
{
	while (comm->creating)
		futex_wait(&comm->creating, 1, 0);
}

/* Of a non-blocking creation whose peers may never come. */
static void creation_abort(struct ncclComm *comm)
{
	while (comm->creating) {
		if (comm->fabric.segment)
			fabric_abort(&comm->fabric);
		futex_wait(&comm->creating, 1, clock_now_ns() + NSEC_PER_MSEC);
	}
}

void comm_drain(struct ncclComm *comm)
{
	static const _Atomic uint32_t never;

	*comm->abortFlag = 1;
	fabric_abort(&comm->fabric);
	/* A waiter may just be on its way to sleep, so wake until none is left. */
	while (plans_are_running(comm)) {
		futex_wait(&never, 0, clock_now_ns() + NSEC_PER_MSEC);
		fabric_abort(&comm->fabric);
	}
	*comm->abortFlag = 0;
	comm->fabric.aborted = 0;
}

NCCL_API(ncclResult_t, ncclCommFinalize, ncclComm_t comm);
ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	if (comm_check(comm))
		return ncclInvalidArgument;
	plans_wait(comm);
	return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommDestroy, ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	if (!comm)
		return ncclSuccess;
	if (comm_check(comm))
		return ncclInvalidArgument;
	creation_wait(comm);
	plans_wait(comm);
	comm_free(comm);
	return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommAbort, ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	if (!comm)
		return ncclSuccess;
	if (comm_check(comm))
		return ncclInvalidArgument;
	creation_abort(comm);
	if (comm->fabric.segment)
		comm_drain(comm);
	comm_free(comm);
	return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommRevoke, ncclComm_t comm, int flags);
ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags)
{
	if (comm_check(comm) || flags)
		return ncclInvalidArgument;
	comm->revokedFlag = 1;
	comm_drain(comm);
	return ncclSuccess;
}
