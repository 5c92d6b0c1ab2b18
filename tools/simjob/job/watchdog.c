// SPDX-License-Identifier: Apache-2.0
/*
 * The watchdog thread, as PyTorch's: ten times a second (--poll-hz) it asks each communicator for an asynchronous error
 * and each work in flight whether its end event has been reached. A work that takes too long ends the process.
 */
#include "tools/simjob/job/rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

static void comm_poll(struct rank *rank, struct job_comm *comm)
{
	ncclResult_t error = ncclSuccess;

	if (!comm->comm)
		return;
	if (comm->api->ncclCommGetAsyncError(comm->comm, &error) != ncclSuccess || error != ncclSuccess) {
		fprintf(stderr, "simjob: rank %d: communicator %s: %s\n", rank->rank, comm->name,
			comm->api->ncclGetErrorString(error));
		abort();
	}
}

static void work_check_age(struct rank *rank, const struct work *work)
{
	uint64_t age_ns = clock_now_ns() - work->issued_ns;

	if (rank->options->watchdog_s == 0 || age_ns < rank->options->watchdog_s * NSEC_PER_SEC)
		return;
	fprintf(stderr, "simjob: rank %d: watchdog: %s on communicator %s has not ended after %.1f s; aborting\n",
		rank->rank, work->op, work->comm->name, (double)age_ns / NSEC_PER_SEC);
	abort();
}

/* PyTorch asks for the duration of what is over when it has timed it, and ends the process on any error. */
static bool work_is_over(struct rank *rank, const struct work *work)
{
	CUresult res = rank->api.cuEventQuery(work->end);
	const char *name = NULL;
	float ms;

	if (res == CUDA_ERROR_NOT_READY)
		return false;
	if (res == CUDA_SUCCESS && work->start)
		res = rank->api.cuEventElapsedTime_v2(&ms, work->start, work->end);
	if (res == CUDA_SUCCESS)
		return true;
	rank->api.cuGetErrorName(res, &name);
	fprintf(stderr, "simjob: rank %d: watchdog: %s on communicator %s: %s; aborting\n", rank->rank, work->op,
		work->comm->name, name ? name : "unknown error");
	abort();
}

static void works_poll(struct rank *rank)
{
	struct watchdog *watchdog = &rank->watchdog;
	struct work **link, *work;

	pthread_mutex_lock(&watchdog->lock);
	for (link = &watchdog->works; (work = *link);) {
		if (!work_is_over(rank, work)) {
			work_check_age(rank, work);
			link = &work->next;
			continue;
		}
		*link = work->next;
		work_put(&rank->api, work);
	}
	watchdog->works_tail = link;
	pthread_mutex_unlock(&watchdog->lock);
}

/* Under the lock: comms_destroy() comes after watchdog_drain(), and a restart replaces what is polled here. */
static void comms_poll(struct rank *rank)
{
	pthread_mutex_lock(&rank->watchdog.lock);
	if (rank->watchdog.works) {
		comm_poll(rank, &rank->world);
		comm_poll(rank, &rank->dp);
		comm_poll(rank, &rank->tp);
		comm_poll(rank, &rank->pp);
	}
	pthread_mutex_unlock(&rank->watchdog.lock);
}

static void *watchdog_thread(void *arg)
{
	struct rank *rank = arg;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
	uint64_t poll_ns = NSEC_PER_SEC / rank->options->poll_hz, next_ns = clock_now_ns();

	/* As PyTorch around its queries: they would make a capture of the main thread invalid. */
	rank->api.cuThreadExchangeStreamCaptureMode(&mode);
	prctl(PR_SET_NAME, "pt_nccl_watchdg");
	while (!rank->watchdog.stopping) {
		next_ns += poll_ns;
		futex_wait(&rank->watchdog.stopping, 0, next_ns);
		comms_poll(rank);
		works_poll(rank);
		/* After a stop of the process there is nothing to catch up with. */
		if (clock_now_ns() > next_ns + poll_ns)
			next_ns = clock_now_ns();
	}
	return NULL;
}

void watchdog_start(struct rank *rank)
{
	struct watchdog *watchdog = &rank->watchdog;

	pthread_mutex_init(&watchdog->lock, NULL);
	watchdog->works_tail = &watchdog->works;
	if (pthread_create(&watchdog->thread, NULL, watchdog_thread, rank)) {
		fprintf(stderr, "simjob: rank %d: cannot start the watchdog thread\n", rank->rank);
		exit(1);
	}
}

void watchdog_add(struct rank *rank, struct work *work)
{
	pthread_mutex_lock(&rank->watchdog.lock);
	*rank->watchdog.works_tail = work;
	rank->watchdog.works_tail = &work->next;
	pthread_mutex_unlock(&rank->watchdog.lock);
}

void watchdog_drain(struct rank *rank)
{
	rank->api.cuCtxSynchronize();
	works_poll(rank);
}

void watchdog_stop(struct rank *rank)
{
	watchdog_drain(rank);
	atomic_store(&rank->watchdog.stopping, 1);
	futex_wake_all(&rank->watchdog.stopping);
	pthread_join(rank->watchdog.thread, NULL);
}
