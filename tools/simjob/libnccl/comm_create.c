// SPDX-License-Identifier: Apache-2.0
/*
 * Communicators from a unique id: ncclGetUniqueId, ncclCommInitRank and its relatives. The id names the memory file
 * of the process that made it; every rank opens it from there and waits for the others in it.
 */
#include "tools/simjob/libnccl/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct fabric_key) <= NCCL_UNIQUE_ID_BYTES, "the key must fit into the unique id");
_Static_assert(sizeof(struct ncclComm) > 65536, "real communicators are large, searches rely on it");

char comm_last_error[160];

struct ncclComm *comm_alloc(const ncclConfig_t *config)
{
	struct ncclComm *comm = calloc(1, sizeof(*comm));

	if (!comm)
		return NULL;
	comm->startMagic = comm->endMagic = NCCL_MAGIC;
	comm->initState = ncclInProgress;
	comm->abortFlag = &comm->abort_word;
	pthread_mutex_init(&comm->launch_lock, NULL);
	if (config)
		comm->config = *config;
	return comm;
}

void comm_free(struct ncclComm *comm)
{
	if (!comm)
		return;
	proxy_stop(comm);
	shared_leave(comm);
	fabric_close(&comm->fabric);
	/* NCCL poisons what it frees, so that a stale pointer is recognised. */
	comm->rank = comm->cudaDev = comm->nRanks = -1;
	comm->startMagic = comm->endMagic = 0;
	/* The compiler must not drop stores to memory about to be freed. */
	__asm__ volatile("" ::"r"(comm) : "memory");
	free(comm->transfers_sent);
	free(comm->transfers_received);
	pthread_mutex_destroy(&comm->launch_lock);
	free(comm);
}

ncclResult_t comm_check(const struct ncclComm *comm)
{
	if (!comm || comm->startMagic != NCCL_MAGIC || comm->endMagic != NCCL_MAGIC)
		return ncclInvalidArgument;
	return ncclSuccess;
}

static ncclResult_t comm_fail(struct ncclComm *comm, int err)
{
	ncclResult_t result = err == -EINVAL ? ncclInvalidUsage : err == -ENOMEM ? ncclSystemError : ncclRemoteError;

	snprintf(comm->last_error, sizeof(comm->last_error), "rank %d: rendezvous failed: %s", comm->rank,
		 strerror(-err));
	memcpy(comm_last_error, comm->last_error, sizeof(comm_last_error));
	return comm->initState = result;
}

ncclResult_t comm_connect(struct ncclComm *comm, const struct fabric_key *key, int nr_ranks, int rank, uint64_t hash)
{
	int err;

	comm->commHash = hash;
	comm->rank = rank;
	comm->nRanks = nr_ranks;
	comm->transfers_sent = calloc(nr_ranks, sizeof(uint32_t));
	comm->transfers_received = calloc(nr_ranks, sizeof(uint32_t));
	/* lint: a failed communicator is destroyed with all that it has */
	if (!comm->transfers_sent || !comm->transfers_received)
		return comm_fail(comm, -ENOMEM);
	err = fabric_open(&comm->fabric, key, nr_ranks, rank);
	if (!err)
		err = proxy_listen(comm, key->nonce);
	if (!err)
		err = fabric_attach(&comm->fabric, key);
	if (!err)
		err = proxy_start(comm, key->nonce);
	if (err)
		return comm_fail(comm, err);
	return comm->initState = room_create(comm);
}

NCCL_API(ncclResult_t, ncclGetUniqueId, ncclUniqueId *ret_id);
ncclResult_t ncclGetUniqueId(ncclUniqueId *ret_id)
{
	struct fabric_key key;

	if (!ret_id)
		return ncclInvalidArgument;
	if (fabric_key_create(&key))
		return ncclSystemError;
	memset(ret_id, 0, sizeof(*ret_id));
	memcpy(ret_id, &key, sizeof(key));
	return ncclSuccess;
}

static ncclResult_t init_run(struct comm_job *job)
{
	struct fabric_key key;

	memcpy(&key, &job->id, sizeof(key));
	return comm_connect(job->comm, &key, job->nr_ranks, job->rank, comm_hash_root(&job->id));
}

static ncclResult_t init_submit(ncclComm_t *newcomm, int nr_ranks, const ncclUniqueId *id, int rank, int device,
				const ncclConfig_t *config)
{
	struct comm_job job = { .run = init_run, .newcomm = newcomm, .id = *id, .nr_ranks = nr_ranks, .rank = rank };

	if (!newcomm || nr_ranks < 1 || nr_ranks > FABRIC_MAX_RANKS || rank < 0 || rank >= nr_ranks)
		return ncclInvalidArgument;
	if (config && config->magic != NCCL_CONFIG_MAGIC)
		return ncclInvalidArgument;
	*newcomm = NULL;
	job.comm = comm_alloc(config);
	if (!job.comm)
		return ncclSystemError;
	job.comm->cudaDev = job.comm->nvmlDev = device;
	return comm_job_submit(&job);
}

static ncclResult_t init_on_current_device(ncclComm_t *newcomm, int nr_ranks, const ncclUniqueId *id, int rank,
					   const ncclConfig_t *config)
{
	const struct cuda_driver *driver = cuda_driver_get();
	CUdevice device;

	if (!driver || driver->ctx_get_device(&device) != CUDA_SUCCESS)
		return ncclUnhandledCudaError;
	return init_submit(newcomm, nr_ranks, id, rank, device, config);
}

NCCL_API(ncclResult_t, ncclCommInitRank, ncclComm_t *newcomm, int nranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommInitRank(ncclComm_t *newcomm, int nranks, ncclUniqueId id, int rank)
{
	return init_on_current_device(newcomm, nranks, &id, rank, NULL);
}

NCCL_API(ncclResult_t, ncclCommInitRankConfig, ncclComm_t *newcomm, int nranks, ncclUniqueId id, int rank,
	 ncclConfig_t *config);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *newcomm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
	return init_on_current_device(newcomm, nranks, &id, rank, config);
}

/* NCCL spreads the bootstrap over several ids and names the communicator after the first. */
NCCL_API(ncclResult_t, ncclCommInitRankScalable, ncclComm_t *newcomm, int nranks, int rank, int nr_ids,
	 ncclUniqueId *ids, ncclConfig_t *config);
ncclResult_t ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int rank, int nr_ids, ncclUniqueId *ids,
				      ncclConfig_t *config)
{
	if (nr_ids < 1 || nr_ids > nranks || !ids)
		return ncclInvalidArgument;
	return init_on_current_device(newcomm, nranks, &ids[0], rank, config);
}

NCCL_API(ncclResult_t, ncclCommInitAll, ncclComm_t *comms, int nr_devices, const int *devices);
ncclResult_t ncclCommInitAll(ncclComm_t *comms, int nr_devices, const int *devices)
{
	ncclUniqueId id;
	ncclResult_t result, end_result;
	int i;

	if (!comms || nr_devices < 1)
		return ncclInvalidArgument;
	result = ncclGetUniqueId(&id);
	if (result)
		return result;
	group_start();
	for (i = 0; i < nr_devices && !result; i++)
		result = init_submit(&comms[i], nr_devices, &id, i, devices ? devices[i] : i, NULL);
	end_result = group_end();
	return result ? result : end_result;
}
