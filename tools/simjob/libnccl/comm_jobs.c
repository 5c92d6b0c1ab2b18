// SPDX-License-Identifier: Apache-2.0
/*
 * Running creations. Outside a group the caller's thread does the work; inside, all creations of the group run side by
 * side at its end, as one process may hold several ranks that wait for each other. A non-blocking one goes on in a
 * thread of its own, and its communicator says how far it is.
 */
#include "tools/simjob/libnccl/comm.h"

#include <stdlib.h>

static ncclResult_t job_finish(struct comm_job *job)
{
	ncclResult_t result = job->result;

	if (job->comm && result != ncclSuccess) {
		*job->newcomm = NULL;
		comm_free(job->comm);
	}
	free(job->excluded);
	free(job);
	return result;
}

static bool job_is_nonblocking(const struct comm_job *job)
{
	return job->comm && job->comm->config.magic == NCCL_CONFIG_MAGIC && job->comm->config.blocking == 0;
}

/* What fails is the caller's to abort: it stays. */
static void *detached_thread(void *arg)
{
	struct comm_job *job = arg;
	struct ncclComm *comm = job->comm;
	ncclResult_t result = job->run(job);

	free(job->excluded);
	free(job);
	__atomic_store_n(&comm->asyncResult, result, __ATOMIC_RELEASE);
	atomic_store(&comm->creating, 0);
	futex_wake_all(&comm->creating);
	return NULL;
}

static ncclResult_t job_detach(struct comm_job *job)
{
	pthread_t thread;

	job->comm->asyncResult = job->comm->initState = ncclInProgress;
	job->comm->creating = 1;
	if (pthread_create(&thread, NULL, detached_thread, job)) {
		job->result = ncclSystemError;
		return job_finish(job);
	}
	pthread_detach(thread);
	return ncclInProgress;
}

ncclResult_t comm_job_submit(const struct comm_job *job)
{
	struct comm_job *copy = malloc(sizeof(*copy));

	if (!copy) {
		comm_free(job->comm);
		free(job->excluded);
		return ncclSystemError;
	}
	*copy = *job;
	/* The caller has the communicator from now on; it is of use when the creation is over. */
	if (copy->comm)
		*copy->newcomm = copy->comm;
	if (group_is_open()) {
		group_add_job(copy);
		return ncclSuccess;
	}
	if (job_is_nonblocking(copy))
		return job_detach(copy);
	copy->result = copy->run(copy);
	return job_finish(copy);
}

static void *job_thread(void *arg)
{
	struct comm_job *job = arg;

	job->result = job->run(job);
	return NULL;
}

ncclResult_t comm_jobs_run(struct comm_job *jobs)
{
	ncclResult_t result = ncclSuccess;
	struct comm_job *job, *next;

	for (job = jobs; job; job = job->next) {
		/* No thread waits for it here, and it frees itself. */
		if (job_is_nonblocking(job))
			continue;
		if (pthread_create(&job->thread, NULL, job_thread, job)) {
			job->thread = 0;
			job->result = ncclSystemError;
		}
	}
	for (job = jobs; job; job = next) {
		ncclResult_t job_result;

		next = job->next;
		if (job_is_nonblocking(job)) {
			job_result = job_detach(job);
			if (result == ncclSuccess)
				result = job_result;
			continue;
		}
		if (job->thread)
			pthread_join(job->thread, NULL);
		job_result = job_finish(job);
		if (result == ncclSuccess)
			result = job_result;
	}
	return result;
}
