// SPDX-License-Identifier: Apache-2.0
/*
 * Running creations. Outside a group the caller's thread does the work; inside, all creations of the group run side by
 * side at its end, as one process may hold several ranks that wait for each other.
 */
#include "comm.h"

#include <stdlib.h>

static ncclResult_t job_finish(struct comm_job *job)
{
	ncclResult_t result = job->result;

	if (job->comm && result == ncclSuccess) {
		*job->newcomm = job->comm;
	} else if (job->comm) {
		comm_free(job->comm);
	}
	free(job->excluded);
	free(job);
	return result;
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
	if (group_is_open()) {
		group_add_job(copy);
		return ncclSuccess;
	}
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
		if (pthread_create(&job->thread, NULL, job_thread, job)) {
			job->thread = 0;
			job->result = ncclSystemError;
		}
	}
	for (job = jobs; job; job = next) {
		ncclResult_t job_result;

		next = job->next;
		if (job->thread)
			pthread_join(job->thread, NULL);
		job_result = job_finish(job);
		if (result == ncclSuccess)
			result = job_result;
	}
	return result;
}
