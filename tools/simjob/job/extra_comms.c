// SPDX-License-Identifier: Apache-2.0
/*
 * Communicators that a plain job does not make, each used and ended again, once in a job with --extra-ops: from several
 * ids, non-blocking and aborted, shrunk, and with two members in this one process.
 */
#include "tools/simjob/job/rank.h"

#include <stdio.h>
#include <stdlib.h>

enum { ID_SCALABLE, ID_SCALABLE_2, ID_NONBLOCKING };
_Static_assert(ID_NONBLOCKING + 1 == EXTRA_IDS, "one id in the store each");

#define POLL_NS NSEC_PER_MSEC

static void extra_id(struct rank *rank, int which, ncclUniqueId *ret_id)
{
	int first = rank->store->nr_ids - rank->options->nr_injections - EXTRA_IDS;

	/* Another rank each time: the maker of an id need not be rank 0. */
	id_share(rank, &rank->api, first + which, rank->rank == which % rank->world.size, ret_id);
}

static void scalable_create(struct rank *rank, struct job_comm *comm)
{
	const struct api *api = &rank->api;
	ncclConfig_t config = comm_config("scalable", 1);
	ncclUniqueId ids[2];
	ncclComm_t handle;

	extra_id(rank, ID_SCALABLE, &ids[0]);
	extra_id(rank, ID_SCALABLE_2, &ids[1]);
	nccl_check(api, api->ncclCommInitRankScalable(&handle, rank->world.size, rank->rank, 2, ids, &config), NULL,
		   "ncclCommInitRankScalable");
	comm_set_up(rank, api, comm, "scalable", handle);
}

/* The call returns before the communicator is there; it is asked until it is, as PyTorch does. */
static void nonblocking_create(struct rank *rank, struct job_comm *comm)
{
	const struct api *api = &rank->api;
	ncclConfig_t config = comm_config("nonblocking", 0);
	ncclResult_t state, res;
	ncclUniqueId id;
	ncclComm_t handle;

	extra_id(rank, ID_NONBLOCKING, &id);
	res = api->ncclCommInitRankConfig(&handle, rank->world.size, id, rank->rank, &config);
	if (res != ncclInProgress)
		nccl_check(api, res, NULL, "ncclCommInitRankConfig");
	for (;;) {
		nccl_check(api, api->ncclCommGetAsyncError(handle, &state), handle, "ncclCommGetAsyncError");
		if (state != ncclInProgress)
			break;
		sleep_until(clock_now_ns() + POLL_NS);
	}
	nccl_check(api, state, handle, "ncclCommInitRankConfig");
	comm_set_up(rank, api, comm, "nonblocking", handle);
}

static void scalable_and_shrunk_run(struct rank *rank)
{
	const struct api *api = &rank->api;
	int excluded = rank->world.size - 1;
	struct job_comm scalable, shrunk;
	ncclComm_t handle;

	scalable_create(rank, &scalable);
	op_run(rank, &scalable, &(struct op_call){ OP_ALL_REDUCE, 4096, ncclFloat32, 0 });
	op_run(rank, &scalable, &(struct op_call){ OP_ALL_TO_ALL, 128, ncclInt32, 0 });
	op_run(rank, &scalable, &(struct op_call){ OP_ALL_REDUCE, 4097, ncclFloat32, 0 });
	compute_synchronize(rank);
	if (rank->rank != excluded) {
		nccl_check(api, api->ncclCommShrink(scalable.comm, &excluded, 1, &handle, NULL, 0), scalable.comm,
			   "ncclCommShrink");
		comm_set_up(rank, api, &shrunk, "shrunk", handle);
		op_run(rank, &shrunk, &(struct op_call){ OP_BROADCAST, 777, ncclBfloat16, 0 });
		op_run(rank, &shrunk, &(struct op_call){ OP_ALL_REDUCE, 778, ncclBfloat16, 0 });
		watchdog_drain(rank);
		comm_destroy(rank, &shrunk);
	}
	watchdog_drain(rank);
	comm_destroy(rank, &scalable);
}

static void nonblocking_run(struct rank *rank)
{
	struct job_comm comm;

	nonblocking_create(rank, &comm);
	op_run(rank, &comm, &(struct op_call){ OP_ALL_GATHER, 2048, ncclUint8, 0 });
	watchdog_drain(rank);
	comm_abort(rank, &comm);
}

/* One process, two of its devices: ncclCommInitAll() makes both members, and a group calls for both. */
static void pair_run(struct rank *rank)
{
	const struct api *api = &rank->api;
	const int devices[2] = { rank->rank, (rank->rank + 1) % rank->options->nr_ranks };
	struct job_comm pair[2];
	struct work *works[2];
	ncclComm_t handles[2];
	int i, round;

	nccl_check(api, api->ncclCommInitAll(handles, 2, devices), NULL, "ncclCommInitAll");
	for (i = 0; i < 2; i++)
		comm_set_up(rank, api, &pair[i], "pair", handles[i]);
	for (round = 0; round < 2; round++) {
		op_begin(rank, &pair[0]);
		op_begin(rank, &pair[1]);
		nccl_check(api, api->ncclGroupStart(), handles[0], "ncclGroupStart");
		for (i = 0; i < 2; i++)
			op_call(rank, &pair[i], &(struct op_call){ OP_ALL_REDUCE, 512 + round, ncclFloat64, 0 });
		nccl_check(api, api->ncclGroupEnd(), handles[0], "ncclGroupEnd");
		for (i = 0; i < 2; i++)
			works[i] = op_finish(rank, &pair[i], OP_ALL_REDUCE);
		for (i = 0; i < 2; i++)
			work_wait(rank, works[i]);
	}
	watchdog_drain(rank);
	for (i = 0; i < 2; i++)
		comm_destroy(rank, &pair[i]);
}

void extra_comms_run(struct rank *rank)
{
	/* These are made one after the other, and one thread would wait for itself in the first. */
	if (rank->has_had_extra_comms || rank->world.size < 2 || rank->turn)
		return;
	rank->has_had_extra_comms = true;
	scalable_and_shrunk_run(rank);
	nonblocking_run(rank);
	pair_run(rank);
}
