// SPDX-License-Identifier: Apache-2.0
/*
 * What a plain training step does not contain (--extra-ops): every other operation on the world, empty ones, a group
 * within a group, groups that mix collectives and transfers, that exchange with everybody, that span communicators.
 */
#include "tools/simjob/job/rank.h"

static void group_start(struct rank *rank)
{
	nccl_check(&rank->api, rank->api.ncclGroupStart(), rank->world.comm, "ncclGroupStart");
}

static void group_end(struct rank *rank)
{
	nccl_check(&rank->api, rank->api.ncclGroupEnd(), rank->world.comm, "ncclGroupEnd");
}

static void each_alone(struct rank *rank)
{
	int root = rank->step / 4 % rank->world.size;
	const struct op_call calls[] = {
		{ OP_BCAST, 4096, ncclInt64, root },       { OP_REDUCE, 65536, ncclFloat32, root },
		{ OP_ALL_TO_ALL, 16384, ncclBfloat16, 0 }, { OP_GATHER, 1000, ncclInt32, root },
		{ OP_SCATTER, 2000, ncclUint8, root },     { OP_ALL_TO_ALL, 8192, ncclFloat16, 0 },
		{ OP_ALL_GATHER, 512, ncclInt64, 0 },      { OP_REDUCE_SCATTER, 3333, ncclFloat64, 0 },
	};
	size_t i;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		op_run(rank, &rank->world, &calls[i]);
	if (rank->dp.comm) /* it may be another copy's */
		op_run(rank, &rank->dp, &(struct op_call){ OP_BCAST, 4096, ncclInt64, 0 });
}

/* Nothing of it is launched before the outer end. */
static void nested_group(struct rank *rank)
{
	struct job_comm *world = &rank->world;

	op_begin(rank, world);
	group_start(rank);
	op_call(rank, world, &(struct op_call){ OP_ALL_REDUCE, 1024, ncclFloat32, 0 });
	group_start(rank);
	op_call(rank, world, &(struct op_call){ OP_BROADCAST, 2048, ncclUint32, 0 });
	op_call(rank, world, &(struct op_call){ OP_ALL_GATHER, 256, ncclInt8, 0 });
	group_end(rank);
	op_call(rank, world, &(struct op_call){ OP_REDUCE, 128, ncclUint64, 0 });
	group_end(rank);
	work_wait(rank, op_finish(rank, world, OP_ALL_REDUCE));
}

/* A ring shift next to a collective; two transfers to the same peer in one group. */
static void mixed_group(struct rank *rank)
{
	struct job_comm *world = &rank->world;
	int next = (world->rank + 1) % world->size;
	int previous = (world->rank + world->size - 1) % world->size;
	int i;

	op_begin(rank, world);
	group_start(rank);
	for (i = 0; i < 2; i++) {
		op_call(rank, world, &(struct op_call){ OP_SEND, 4096 + i, ncclFloat8e4m3, next });
		op_call(rank, world, &(struct op_call){ OP_RECV, 4096 + i, ncclFloat8e4m3, previous });
	}
	op_call(rank, world, &(struct op_call){ OP_ALL_TO_ALL, 64, ncclFloat8e5m2, 0 });
	group_end(rank);
	work_wait(rank, op_finish(rank, world, OP_SEND));
}

/* From @from to @to; some have nothing to say, and their transfers take place all the same. */
static size_t exchange_count(int from, int to)
{
	return (from + to) % 3 ? 100 * (from + 1) + to : 0;
}

/* As all_to_all with sizes that differ: a Send and a Recv for each rank, itself included, in one group. */
static void exchange_group(struct rank *rank)
{
	struct job_comm *world = &rank->world;
	int peer;

	op_begin(rank, world);
	group_start(rank);
	for (peer = 0; peer < world->size; peer++) {
		size_t sent = exchange_count(world->rank, peer), received = exchange_count(peer, world->rank);

		op_call(rank, world, &(struct op_call){ OP_SEND, sent, ncclFloat16, peer });
		op_call(rank, world, &(struct op_call){ OP_RECV, received, ncclFloat16, peer });
	}
	group_end(rank);
	work_wait(rank, op_finish(rank, world, OP_SEND));
}

static void empty_ones(struct rank *rank)
{
	struct job_comm *world = &rank->world;

	op_begin(rank, world);
	op_call(rank, world, &(struct op_call){ OP_ALL_REDUCE, 0, ncclFloat32, 0 });
	group_start(rank);
	op_call(rank, world, &(struct op_call){ OP_BROADCAST, 0, ncclFloat32, 0 });
	op_call(rank, world, &(struct op_call){ OP_ALL_TO_ALL, 0, ncclFloat32, 0 });
	group_end(rank);
}

/* One group, an operation on each communicator that lives in the same copy of libnccl. */
static void spanning_group(struct rank *rank)
{
	struct job_comm *comms[] = { &rank->dp, &rank->world, &rank->tp };
	struct work *works[3] = { NULL };
	size_t i;

	group_start(rank);
	for (i = 0; i < 3; i++) {
		if (!comms[i]->comm || comms[i]->api != rank->world.api)
			continue;
		op_begin(rank, comms[i]);
		op_call(rank, comms[i], &(struct op_call){ OP_ALL_REDUCE, 1000 + i, ncclFloat32, 0 });
	}
	group_end(rank);
	for (i = 0; i < 3; i++) {
		if (comms[i]->comm && comms[i]->api == rank->world.api)
			works[i] = op_finish(rank, comms[i], OP_ALL_REDUCE);
	}
	for (i = 0; i < 3; i++) {
		if (works[i])
			work_wait(rank, works[i]);
	}
}

void extra_ops_run(struct rank *rank)
{
	each_alone(rank);
	nested_group(rank);
	mixed_group(rank);
	exchange_group(rank);
	empty_ones(rank);
	spanning_group(rank);
	extra_comms_run(rank);
}
