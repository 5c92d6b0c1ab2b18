// SPDX-License-Identifier: Apache-2.0
/*
 * What a tracer relies on in the stand-ins, checked from inside one process that holds several ranks: when NCCL's
 * counters move, how communicators are named, what completes and what does not, and time on the streams.
 */
#include "tests/simjob/ranks_in_one.h"

#include <string.h>

/* The reference values were computed with NCCL's own src/include/bitops.h: bytes i * 7 + 3, then (hash, 3, 5). */
static void test_hash(void)
{
	ncclUniqueId id;
	int i;

	for (i = 0; i < NCCL_UNIQUE_ID_BYTES; i++)
		id.internal[i] = i * 7 + 3;
	EXPECT(comm_hash_root(&id) == 0x343193647d986d6eULL);
	EXPECT(comm_hash_child(comm_hash_root(&id), 3, 5) == 0xfd29315950cdc8cbULL);
}

static void test_time(void)
{
	CUevent begin, end;
	float ms;
	uint64_t begin_ns;
	int i;

	EXPECT(!cuEventCreate(&begin, 0) && !cuEventCreate(&end, 0));
	EXPECT(cuEventQuery(end) == CUDA_SUCCESS);
	begin_ns = clock_now_ns();
	kernel_launch(streams[0], 40 * NSEC_PER_MSEC);
	EXPECT(!cuEventRecord(begin, streams[0]));
	for (i = 0; i < 10; i++)
		kernel_launch(streams[0], 4 * NSEC_PER_MSEC);
	EXPECT(!cuEventRecord(end, streams[0]));
	/* A second stream runs at the same time, and waits for the first where it is told to. */
	kernel_launch(streams[1], 30 * NSEC_PER_MSEC);
	EXPECT(!cuStreamWaitEvent(streams[1], begin, 0));
	kernel_launch(streams[1], 5 * NSEC_PER_MSEC);
	EXPECT(ms_since(begin_ns) < 20);
	EXPECT(cuEventQuery(end) == CUDA_ERROR_NOT_READY && cuStreamQuery(streams[0]) == CUDA_ERROR_NOT_READY);
	EXPECT(cuEventElapsedTime(&ms, begin, end) == CUDA_ERROR_NOT_READY);
	EXPECT(!cuStreamSynchronize(streams[1]));
	EXPECT(ms_since(begin_ns) >= 45);
	EXPECT(!cuEventSynchronize(end));
	EXPECT(ms_since(begin_ns) >= 80);
	EXPECT(cuEventQuery(end) == CUDA_SUCCESS && cuStreamQuery(streams[0]) == CUDA_SUCCESS);
	/* Exact to the nanosecond on the GPU's side, however late the host's threads ran. */
	EXPECT(!cuEventElapsedTime(&ms, begin, end) && ms > 39.999f && ms < 40.001f);
	EXPECT(!cuEventDestroy_v2(begin) && !cuEventDestroy_v2(end));
}

static void all_reduce(ncclComm_t *comms, size_t count)
{
	int i;

	for (i = 0; i < NR_RANKS; i++)
		EXPECT(!ncclAllReduce(NULL, NULL, count, ncclFloat32, ncclSum, comms[i], streams[i]));
}

static void synchronize(void)
{
	int i;

	for (i = 0; i < NR_RANKS; i++)
		EXPECT(!cuStreamSynchronize(streams[i]));
}

static void test_counters(ncclComm_t *comms)
{
	int i, rank, nr_ranks, device;

	for (i = 0; i < NR_RANKS; i++) {
		EXPECT(comms[i]->startMagic == NCCL_MAGIC && comms[i]->endMagic == NCCL_MAGIC);
		EXPECT(!ncclCommUserRank(comms[i], &rank) && !ncclCommCount(comms[i], &nr_ranks));
		EXPECT(!ncclCommCuDevice(comms[i], &device));
		EXPECT(rank == i && nr_ranks == NR_RANKS && device == i && comms[i]->commHash == comms[0]->commHash);
	}
	/* Nested: nothing moves before the outermost end. */
	EXPECT(!ncclGroupStart() && !ncclGroupStart());
	all_reduce(comms, 1000);
	EXPECT(!ncclGroupEnd());
	for (i = 0; i < NR_RANKS; i++)
		EXPECT(!ncclBcast(NULL, 10, ncclInt8, 1, comms[i], streams[i]));
	EXPECT(comms[0]->seqNumber[FUNC_ALL_REDUCE] == 0 && comms[0]->seqNumber[FUNC_BROADCAST] == 0);
	EXPECT(!ncclGroupEnd());
	EXPECT(comms[3]->seqNumber[FUNC_ALL_REDUCE] == 1 && comms[3]->seqNumber[FUNC_BROADCAST] == 1);
	EXPECT(ncclGroupEnd() == ncclInvalidUsage);
	/* These have no counter, and an empty collective is none. */
	EXPECT(!ncclGroupStart());
	for (i = 0; i < NR_RANKS; i++) {
		EXPECT(!ncclAlltoAll(NULL, NULL, 8, ncclInt8, comms[i], streams[i]));
		EXPECT(!ncclSend(NULL, 8, ncclInt8, i, comms[i], streams[i]));
		EXPECT(!ncclRecv(NULL, 8, ncclInt8, i, comms[i], streams[i]));
		EXPECT(!ncclAllReduce(NULL, NULL, 0, ncclInt8, ncclSum, comms[i], streams[i]));
	}
	EXPECT(!ncclGroupEnd());
	synchronize();
	for (i = 0; i < NR_COUNTED_FUNCS; i++)
		EXPECT(comms[0]->seqNumber[i] == (i == FUNC_ALL_REDUCE || i == FUNC_BROADCAST));
	/* Right at the call's return when there is no group; each from its own thread's point of view. */
	all_reduce(comms, 1);
	EXPECT(comms[0]->seqNumber[FUNC_ALL_REDUCE] == 2);
	synchronize();
}

/* Nobody leaves a collective before the last one has entered. */
static void test_rendezvous(ncclComm_t *comms)
{
	struct timespec wait = { .tv_nsec = 50000000 };
	int i;

	for (i = 0; i < NR_RANKS - 1; i++)
		EXPECT(!ncclAllReduce(NULL, NULL, 5, ncclFloat32, ncclSum, comms[i], streams[i]));
	nanosleep(&wait, NULL);
	for (i = 0; i < NR_RANKS - 1; i++)
		EXPECT(cuStreamQuery(streams[i]) == CUDA_ERROR_NOT_READY);
	EXPECT(!ncclAllReduce(NULL, NULL, 5, ncclFloat32, ncclSum, comms[i], streams[i]));
	synchronize();
}

static void test_children(ncclComm_t *comms)
{
	ncclComm_t halves[NR_RANKS], rest[NR_RANKS];
	int i, excluded = 1, rank;

	EXPECT(!ncclGroupStart());
	for (i = 0; i < NR_RANKS; i++)
		EXPECT(!ncclCommSplit(comms[i], i == 3 ? NCCL_SPLIT_NOCOLOR : i % 2, -i, &halves[i], NULL));
	EXPECT(!ncclGroupEnd());
	EXPECT(halves[3] == NULL && halves[0]->nRanks == 2 && halves[1]->nRanks == 1);
	/* The key turns the order round. */
	EXPECT(!ncclCommUserRank(halves[0], &rank) && rank == 1);
	EXPECT(halves[0]->commHash == halves[2]->commHash && halves[0]->commHash != halves[1]->commHash);
	EXPECT(halves[1]->commHash == comm_hash_child(comms[0]->commHash, 1, 1));
	EXPECT(!ncclGroupStart());
	for (i = 0; i < NR_RANKS; i++) {
		if (i != excluded)
			EXPECT(!ncclCommShrink(comms[i], &excluded, 1, &rest[i], NULL, 0));
	}
	EXPECT(!ncclGroupEnd());
	EXPECT(rest[3]->nRanks == 3 && rest[3]->rank == 2 && rest[0]->commHash == rest[3]->commHash);
	for (i = 0; i < NR_RANKS; i++) {
		EXPECT(!ncclCommDestroy(halves[i]));
		if (i != excluded)
			EXPECT(!ncclCommDestroy(rest[i]));
	}
}

/* NCCL copies where a communicator has one member: at once, also in a group, and no counter moves. */
static void test_one_rank(void)
{
	ncclComm_t alone;
	uint64_t begin_ns;

	EXPECT(!ncclCommInitAll(&alone, 1, NULL) && !ncclGroupStart());
	kernel_launch(streams[0], 20 * NSEC_PER_MSEC);
	begin_ns = clock_now_ns();
	EXPECT(!ncclAllReduce(NULL, NULL, 1000, ncclFloat32, ncclSum, alone, streams[0]));
	EXPECT(alone->seqNumber[FUNC_ALL_REDUCE] == 0 && alone->opCount == 0);
	EXPECT(!cuStreamSynchronize(streams[0]) && ms_since(begin_ns) >= 19);
	EXPECT(!ncclGroupEnd() && alone->seqNumber[FUNC_ALL_REDUCE] == 0 && !ncclCommDestroy(alone));
}

static ncclResult_t async_state(ncclComm_t comm)
{
	ncclResult_t state;

	EXPECT(!ncclCommGetAsyncError(comm, &state));
	return state;
}

/* The call is back before the peers are there, with a communicator that is of no use yet. */
static void test_nonblocking(void)
{
	ncclConfig_t config = { .size = sizeof(config), .magic = NCCL_CONFIG_MAGIC, .blocking = 0 };
	struct timespec wait = { .tv_nsec = 30000000 };
	ncclComm_t comms[2], lonely;
	ncclUniqueId id;
	int i;

	EXPECT(!ncclGetUniqueId(&id));
	EXPECT(ncclCommInitRankConfig(&comms[0], 2, id, 0, &config) == ncclInProgress && comms[0]);
	nanosleep(&wait, NULL);
	EXPECT(async_state(comms[0]) == ncclInProgress && comms[0]->startMagic == NCCL_MAGIC);
	EXPECT(ncclAllReduce(NULL, NULL, 8, ncclInt8, ncclSum, comms[0], streams[0]) == ncclInvalidArgument);
	EXPECT(ncclCommInitRankConfig(&comms[1], 2, id, 1, &config) == ncclInProgress && comms[1]);
	for (i = 0; i < 2; i++) {
		while (async_state(comms[i]) == ncclInProgress)
			nanosleep(&wait, NULL);
		EXPECT(async_state(comms[i]) == ncclSuccess);
		EXPECT(!ncclAllReduce(NULL, NULL, 8, ncclInt8, ncclSum, comms[i], streams[i]));
	}
	synchronize();
	EXPECT(!ncclCommAbort(comms[0]) && !ncclCommDestroy(comms[1]));
	/* One whose peer never comes can be aborted. */
	EXPECT(!ncclGetUniqueId(&id) && ncclCommInitRankConfig(&lonely, 2, id, 0, &config) == ncclInProgress);
	EXPECT(!ncclCommAbort(lonely));
}

/* In a group the communicator is known before it is created. */
static void test_created_at_group_end(void)
{
	ncclComm_t comms[2] = { NULL };
	ncclUniqueId id;
	int i;

	EXPECT(!ncclGetUniqueId(&id) && !ncclGroupStart());
	for (i = 0; i < 2; i++)
		EXPECT(!ncclCommInitRank(&comms[i], 2, id, i) && comms[i] && comms[i]->commHash == 0);
	EXPECT(!ncclGroupEnd() && comms[0]->commHash == comm_hash_root(&id) && comms[1]->rank == 1);
	for (i = 0; i < 2; i++)
		EXPECT(!ncclCommDestroy(comms[i]));
}

/* One rank with another count: nobody completes, until the communicators are aborted. */
static void test_mismatch(ncclComm_t *comms)
{
	struct timespec wait = { .tv_nsec = 50000000 };
	int i;

	for (i = 0; i < NR_RANKS; i++)
		EXPECT(!ncclAllReduce(NULL, NULL, i == 2 ? 7 : 8, ncclFloat32, ncclSum, comms[i], streams[i]));
	nanosleep(&wait, NULL);
	for (i = 0; i < NR_RANKS; i++)
		EXPECT(cuStreamQuery(streams[i]) == CUDA_ERROR_NOT_READY);
	for (i = 0; i < NR_RANKS; i++)
		EXPECT(!ncclCommAbort(comms[i]));
	synchronize();
}

static void test_arguments(ncclComm_t *comms)
{
	ncclUniqueId id = { "not an id" };
	ncclComm_t comm;

	EXPECT(ncclAllReduce(NULL, NULL, 1, ncclFloat32, ncclSum, NULL, streams[0]) == ncclInvalidArgument);
	EXPECT(ncclAllReduce(NULL, NULL, 1, ncclNumTypes, ncclSum, comms[0], streams[0]) == ncclInvalidArgument);
	EXPECT(ncclBroadcast(NULL, NULL, 1, ncclInt8, NR_RANKS, comms[0], streams[0]) == ncclInvalidArgument);
	EXPECT(ncclCommInitRank(&comm, 2, id, 2) == ncclInvalidArgument);
	EXPECT(ncclCommInitRank(&comm, 2, id, 0) != ncclSuccess && comm == NULL);
	EXPECT(!strcmp(ncclGetErrorString(ncclInvalidUsage), "invalid usage (run with NCCL_DEBUG=WARN for details)"));
}

static void test_proc_address(void)
{
	void *symbol;
	int status;

	EXPECT(!cuGetProcAddress_v2("cuStreamDestroy", &symbol, 13000, 0, &status) && symbol == cuStreamDestroy_v2);
	EXPECT(!cuGetProcAddress_v2("cuLaunchKernel", &symbol, 13000, 2, &status) && symbol == cuLaunchKernel_ptsz);
	EXPECT(cuGetProcAddress_v2("cuNothing", &symbol, 13000, 0, &status) == CUDA_ERROR_NOT_FOUND && status == 1);
}

int main(void)
{
	ncclComm_t comms[NR_RANKS];

	device_open();
	test_hash();
	test_proc_address();
	test_time();
	EXPECT(!ncclCommInitAll(comms, NR_RANKS, NULL));
	test_counters(comms);
	test_rendezvous(comms);
	test_children(comms);
	test_arguments(comms);
	test_one_rank();
	test_nonblocking();
	test_created_at_group_end();
	test_mismatch(comms);
	printf("counters, names, rendezvous, children, time: as NCCL and CUDA\n");
	return 0;
}
