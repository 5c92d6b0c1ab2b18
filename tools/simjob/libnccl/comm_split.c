// SPDX-License-Identifier: Apache-2.0
/*
 * Communicators from a communicator: ncclCommSplit and ncclCommShrink. The members agree in the parent's fabric; the
 * child's first rank makes the child's own and publishes its key there.
 */
#include "tools/simjob/libnccl/comm.h"

#include <stdlib.h>
#include <string.h>

struct membership {
	int nr_ranks, rank;
	int leader; /* parent rank of the child's rank 0 */
};

static ncclResult_t child_connect(struct comm_job *job, const struct membership *members)
{
	struct ncclComm *parent = job->parent;
	uint64_t hash = comm_hash_child(parent->commHash, job->child_count, job->color);
	struct fabric_key key;
	int err = 0;

	if (members->leader == parent->rank) {
		err = fabric_key_create(&key);
		if (!err)
			fabric_publish(&parent->fabric, job->child_index, &key);
	} else {
		err = fabric_learn(&parent->fabric, members->leader, job->child_index, &key);
	}
	if (err)
		return err == -ECANCELED ? ncclRemoteError : ncclSystemError;
	return comm_connect(job->comm, &key, members->nr_ranks, members->rank, hash);
}

/* Order in the child: by key, then by rank in the parent. */
static struct membership split_members(const struct comm_job *job, const int *colors, const int *keys)
{
	struct membership members = { .leader = -1 };
	int i, me = job->parent->rank;

	for (i = 0; i < job->parent->nRanks; i++) {
		if (colors[i] != job->color)
			continue;
		members.nr_ranks++;
		if (keys[i] < keys[me] || (keys[i] == keys[me] && i < me))
			members.rank++;
		if (members.leader < 0 || keys[i] < keys[members.leader])
			members.leader = i;
	}
	return members;
}

static void split_wait_turn(struct comm_job *job)
{
	uint32_t done;

	while ((done = job->parent->splits_done) != (uint32_t)job->split_index)
		futex_wait(&job->parent->splits_done, done, 0);
}

static ncclResult_t split_run(struct comm_job *job)
{
	struct ncclComm *parent = job->parent;
	int *colors = calloc(2 * parent->nRanks, sizeof(int));
	ncclResult_t result = ncclSystemError;
	struct membership members;

	split_wait_turn(job);
	if (!colors ||
	    fabric_exchange(&parent->fabric, job->split_index, job->color, job->key, colors, colors + parent->nRanks))
		goto out;
	result = ncclSuccess;
	if (job->comm) {
		members = split_members(job, colors, colors + parent->nRanks);
		result = child_connect(job, &members);
	}
out:
	free(colors);
	atomic_store(&parent->splits_done, job->split_index + 1);
	futex_wake_all(&parent->splits_done);
	return result;
}

static struct ncclComm *child_alloc(const struct ncclComm *parent, const ncclConfig_t *config)
{
	struct ncclComm *child = comm_alloc(config ? config : &parent->config);

	if (child) {
		child->cudaDev = parent->cudaDev;
		child->nvmlDev = parent->nvmlDev;
	}
	return child;
}

NCCL_API(ncclResult_t, ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config);
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config)
{
	struct comm_job job = { .run = split_run, .newcomm = newcomm, .parent = comm, .color = color, .key = key };

	if (comm_check(comm) || !newcomm || color < NCCL_SPLIT_NOCOLOR)
		return ncclInvalidArgument;
	*newcomm = NULL;
	if (color != NCCL_SPLIT_NOCOLOR && !(job.comm = child_alloc(comm, config)))
		return ncclSystemError;
	job.split_index = comm->splits++;
	job.child_index = ++comm->children;
	/* Every split counts, also for those who get no communicator: the count is part of the child's hash. */
	job.child_count = ++comm->childCount;
	return comm_job_submit(&job);
}

static bool is_excluded(const struct comm_job *job, int rank)
{
	int i;

	for (i = 0; i < job->nr_excluded; i++) {
		if (job->excluded[i] == rank)
			return true;
	}
	return false;
}

/* The excluded ranks do not take part, so this needs no exchange: everybody has the list. */
static ncclResult_t shrink_run(struct comm_job *job)
{
	struct membership members = { .leader = -1 };
	int i;

	for (i = 0; i < job->parent->nRanks; i++) {
		if (is_excluded(job, i))
			continue;
		members.nr_ranks++;
		if (i < job->parent->rank)
			members.rank++;
		if (members.leader < 0)
			members.leader = i;
	}
	return child_connect(job, &members);
}

NCCL_API(ncclResult_t, ncclCommShrink, ncclComm_t comm, int *excluded, int nr_excluded, ncclComm_t *newcomm,
	 ncclConfig_t *config, int flags);
ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int nr_excluded, ncclComm_t *newcomm, ncclConfig_t *config,
			    int flags)
{
	struct comm_job job = { .run = shrink_run, .newcomm = newcomm, .parent = comm, .nr_excluded = nr_excluded };

	if (comm_check(comm) || !newcomm || !excluded || nr_excluded < 1 || nr_excluded >= comm->nRanks)
		return ncclInvalidArgument;
	*newcomm = NULL;
	job.excluded = calloc(nr_excluded, sizeof(int));
	if (!job.excluded)
		return ncclSystemError;
	memcpy(job.excluded, excluded, nr_excluded * sizeof(int));
	if (is_excluded(&job, comm->rank)) {
		free(job.excluded);
		return ncclInvalidArgument;
	}
	if (flags & NCCL_SHRINK_ABORT)
		comm_drain(comm);
	job.comm = child_alloc(comm, config);
	if (!job.comm) {
		free(job.excluded);
		return ncclSystemError;
	}
	/* NCCL 2.28 does not count a shrink in childCount: color and count in the hash stay 0. */
	job.child_index = ++comm->children;
	return comm_job_submit(&job);
}
