// SPDX-License-Identifier: Apache-2.0
/*
 * A rank's communicators: the world by ncclCommInitRank, data and tensor parallel groups as splits of it, the pipeline
 * by ncclCommInitRankConfig with an id of its own. So all the usual ways of creation occur in one job.
 */
#include "tools/simjob/libnccl/mix.h"
#include "tools/simjob/job/rank.h"

#include <stdio.h>
#include <stdlib.h>

/* Ids in the store: for each generation the world's, one for each pipeline group, one for each data-parallel group. */
enum id_of { ID_OF_WORLD, ID_OF_PIPELINE, ID_OF_DATA };

static int id_index(const struct rank *rank, enum id_of of, int group)
{
	int nr_ranks = rank->options->nr_ranks, first = rank->generation * IDS_PER_GENERATION(nr_ranks);

	if (of == ID_OF_WORLD)
		return first;
	return first + 1 + (of == ID_OF_DATA ? nr_ranks : 0) + group;
}

void id_share(struct rank *rank, const struct api *api, int index, bool is_first, ncclUniqueId *ret_id)
{
	if (is_first) {
		nccl_check(api, api->ncclGetUniqueId(ret_id), NULL, "ncclGetUniqueId");
		store_set_id(rank->store, index, ret_id);
	}
	store_get_id(rank->store, index, ret_id);
}

void comm_set_up(struct rank *rank, const struct api *api, struct job_comm *comm, const char *name, ncclComm_t handle)
{
	*comm = (struct job_comm){ .name = name, .api = api, .comm = handle, .hash = api->sim_comm_hash(handle) };
	nccl_check(api, api->ncclCommCount(handle, &comm->size), handle, "ncclCommCount");
	nccl_check(api, api->ncclCommUserRank(handle, &comm->rank), handle, "ncclCommUserRank");
	comm->send_seq = calloc(comm->size, sizeof(uint64_t));
	comm->recv_seq = calloc(comm->size, sizeof(uint64_t));
	if (!comm->send_seq || !comm->recv_seq) {
		fprintf(stderr, "simjob: rank %d: out of memory\n", rank->rank);
		exit(1);
	}
	/* The flags and the priority are those of PyTorch's NCCL streams. */
	cuda_check(api, api->cuStreamCreateWithPriority(&comm->stream, CU_STREAM_NON_BLOCKING, -1),
		   "cuStreamCreateWithPriority");
}

static void world_create(struct rank *rank)
{
	ncclUniqueId id;
	ncclComm_t comm;

	id_share(rank, &rank->api, id_index(rank, ID_OF_WORLD, 0), rank->rank == 0, &id);
	if (rank->generation == 0)
		hooks_before_world(rank);
	group_join(rank);
	nccl_check(&rank->api, rank->api.ncclCommInitRank(&comm, rank->options->nr_ranks, id, rank->rank), NULL,
		   "ncclCommInitRank");
	group_await(rank);
	comm_set_up(rank, &rank->api, &rank->world, "world", comm);
}

void comm_split(struct rank *rank, struct job_comm *comm, const char *name, int color, int key)
{
	ncclComm_t handle;

	group_join(rank);
	nccl_check(&rank->api, rank->api.ncclCommSplit(rank->world.comm, color, key, &handle, NULL), rank->world.comm,
		   "ncclCommSplit");
	group_await(rank);
	comm_set_up(rank, &rank->api, comm, name, handle);
}

/* In the second copy of libnccl, which knows nothing of the world in the first. */
static void data_create(struct rank *rank)
{
	const struct layout_position *position = &rank->position;
	const struct api *api = &rank->second_api;
	ncclUniqueId id;
	ncclComm_t comm;

	id_share(rank, api, id_index(rank, ID_OF_DATA, position->dp_group), position->dp == 0, &id);
	nccl_check(api, api->ncclCommInitRank(&comm, rank->options->dp, id, position->dp), NULL, "ncclCommInitRank");
	comm_set_up(rank, api, &rank->dp, "dp", comm);
}

ncclConfig_t comm_config(const char *name, int blocking)
{
	return (ncclConfig_t){
		.size = sizeof(ncclConfig_t),
		.magic = NCCL_CONFIG_MAGIC,
		.version = NCCL_VERSION_CODE,
		.blocking = blocking,
		.cgaClusterSize = NCCL_CONFIG_UNDEF_INT,
		.minCTAs = NCCL_CONFIG_UNDEF_INT,
		.maxCTAs = NCCL_CONFIG_UNDEF_INT,
		.splitShare = NCCL_CONFIG_UNDEF_INT,
		.trafficClass = NCCL_CONFIG_UNDEF_INT,
		.commName = name,
		.collnetEnable = NCCL_CONFIG_UNDEF_INT,
		.CTAPolicy = NCCL_CONFIG_UNDEF_INT,
		.shrinkShare = NCCL_CONFIG_UNDEF_INT,
		.nvlsCTAs = NCCL_CONFIG_UNDEF_INT,
		.nChannelsPerNetPeer = NCCL_CONFIG_UNDEF_INT,
		.nvlinkCentricSched = NCCL_CONFIG_UNDEF_INT,
	};
}

static void pipeline_create(struct rank *rank)
{
	const struct layout_position *position = &rank->position;
	ncclConfig_t config = comm_config("pipeline", 1);
	ncclUniqueId id;
	ncclComm_t comm;

	id_share(rank, &rank->api, id_index(rank, ID_OF_PIPELINE, position->pp_group), position->pp == 0, &id);
	group_join(rank);
	nccl_check(&rank->api, rank->api.ncclCommInitRankConfig(&comm, rank->options->pp, id, position->pp, &config),
		   NULL, "ncclCommInitRankConfig");
	group_await(rank);
	comm_set_up(rank, &rank->api, &rank->pp, "pp", comm);
}

void comms_create(struct rank *rank)
{
	const struct options *options = rank->options;
	const struct layout_position *position = &rank->position;

	world_create(rank);
	if (options->dp > 1 && options->nccl_path2)
		data_create(rank);
	else if (options->dp > 1)
		comm_split(rank, &rank->dp, "dp", position->dp_group, position->dp);
	if (options->tp > 1)
		comm_split(rank, &rank->tp, "tp", position->tp_group, position->tp);
	if (options->pp > 1)
		pipeline_create(rank);
	graphs_create(rank);
}

/* The last ones in the store: one for each injection, whether it wants it or not. */
int injection_id_index(const struct rank *rank, const struct injection *injection)
{
	return rank->store->nr_ids - rank->options->nr_injections + injection->index;
}

static void comm_forget(struct job_comm *comm)
{
	cuda_check(comm->api, comm->api->cuStreamDestroy_v2(comm->stream), "cuStreamDestroy");
	free(comm->send_seq);
	free(comm->recv_seq);
	*comm = (struct job_comm){ 0 };
}

void comm_destroy(struct rank *rank, struct job_comm *comm)
{
	const struct api *api = comm->api;

	if (!comm->comm)
		return;
	nccl_check(api, api->ncclCommFinalize(comm->comm), comm->comm, "ncclCommFinalize");
	rank->result = mix(rank->result, api->sim_comm_data(comm->comm));
	nccl_check(api, api->ncclCommDestroy(comm->comm), NULL, "ncclCommDestroy");
	comm_forget(comm);
}

void comm_abort(struct rank *rank, struct job_comm *comm)
{
	rank->result = mix(rank->result, comm->api->sim_comm_data(comm->comm));
	nccl_check(comm->api, comm->api->ncclCommAbort(comm->comm), NULL, "ncclCommAbort");
	comm_forget(comm);
}

void comms_destroy(struct rank *rank)
{
	graphs_destroy(rank);
	comm_destroy(rank, &rank->pp);
	comm_destroy(rank, &rank->tp);
	comm_destroy(rank, &rank->dp);
	comm_destroy(rank, &rank->world);
}
