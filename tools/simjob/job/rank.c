// SPDX-License-Identifier: Apache-2.0
/* The life of one rank: libraries, device, communicators, steps, end. */
#include "tools/simjob/job/rank.h"

#include "tools/simjob/job/job_log.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

void sleep_until(uint64_t deadline_ns)
{
	struct timespec deadline = timespec_from_ns(deadline_ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL))
		;
}

void spin_until(uint64_t deadline_ns)
{
	while (clock_now_ns() < deadline_ns)
		;
}

uint64_t thread_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

static int env_integer(const char *name)
{
	const char *value = getenv(name);

	if (!value) {
		fprintf(stderr, "simjob: %s is not set: ranks are started by the launcher only\n", name);
		exit(2);
	}
	return atoi(value);
}

static void log_open_or_exit(const char *path, int *ret_fd)
{
	*ret_fd = -1;
	if (!path)
		return;
	*ret_fd = job_log_open(path);
	if (*ret_fd < 0) {
		fprintf(stderr, "simjob: cannot write %s: %s; choose another file\n", path, strerror(-*ret_fd));
		exit(1);
	}
}

static void device_open(struct rank *rank)
{
	const struct api *api = &rank->api;
	CUdevice device;

	cuda_check(api, api->cuInit(0), "cuInit");
	cuda_check(api, api->cuDeviceGet(&device, rank->rank), "cuDeviceGet");
	cuda_check(api, api->cuDevicePrimaryCtxRetain(&rank->context, device), "cuDevicePrimaryCtxRetain");
	cuda_check(api, api->cuCtxSetCurrent(rank->context), "cuCtxSetCurrent");
	cuda_check(api, api->cuModuleLoadDataEx(&rank->module, "a model", 0, NULL, NULL), "cuModuleLoadDataEx");
	cuda_check(api, api->cuModuleGetFunction(&rank->kernel, rank->module, "layer"), "cuModuleGetFunction");
	cuda_check(api, api->cuStreamCreateWithPriority(&rank->compute, CU_STREAM_NON_BLOCKING, 0),
		   "cuStreamCreateWithPriority");
	if (rank->options->cuda_events) {
		cuda_check(api, api->cuStreamCreateWithPriority(&rank->copy, CU_STREAM_NON_BLOCKING, 0),
			   "cuStreamCreateWithPriority");
		cuda_check(api, api->cuEventCreate(&rank->copy_event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
	}
	allocator_open(rank);
}

static void device_close(struct rank *rank)
{
	const struct api *api = &rank->api;

	if (rank->copy) {
		cuda_check(api, api->cuEventDestroy_v2(rank->copy_event), "cuEventDestroy");
		cuda_check(api, api->cuStreamDestroy_v2(rank->copy), "cuStreamDestroy");
	}
	cuda_check(api, api->cuStreamDestroy_v2(rank->compute), "cuStreamDestroy");
	if (rank->optimizer)
		cuda_check(api, api->cuLibraryUnload(rank->optimizer), "cuLibraryUnload");
	allocator_close(rank);
	cuda_check(api, api->cuModuleUnload(rank->module), "cuModuleUnload");
}

#define START_POLL_NS 50000000

static void start_wait(const char *path)
{
	while (path && access(path, F_OK))
		sleep_until(clock_now_ns() + START_POLL_NS);
}

/* It takes up what the process before it has left, if there was one. */
static void rank_resume(struct rank *rank)
{
	struct store_rank *shared = &rank->store->ranks[rank->rank];

	rank->resumed_step = (int)atomic_load(&shared->resume_step) - 1;
	rank->generation = atomic_load(&shared->resume_generation);
	atomic_store(&shared->resume_step, 0);
}

static struct store *store_attach_or_exit(void)
{
	struct store *store = store_attach(env_integer("SIMJOB_STORE_FD"));

	if (!store) {
		fprintf(stderr, "simjob: cannot map the job's store: %s\n", strerror(errno));
		exit(1);
	}
	return store;
}

static void rank_set_up(struct rank *rank, const struct options *options)
{
	rank->random.state = options->seed * 0x10001ULL + rank->rank;
	rank->position = layout_position(options, rank->rank);
	rank_resume(rank);
	log_open_or_exit(options->log_path, &rank->log_fd);
	log_open_or_exit(options->step_log_path, &rank->step_log.fd);
	log_open_or_exit(options->fault_log_path, &rank->fault_log_fd);
	if (options->ranks_per_process == 1 || options->threads == THREADS_ONE)
		prctl(PR_SET_NAME, "pt_main_thread");
	if (options->torch)
		api_open_torch(&rank->api);
	api_open(&rank->api, options->nccl_path);
	api_open_second(&rank->second_api, &rank->api, options->nccl_path2);
	start_wait(options->start_path);
	device_open(rank);
}

static void steps_run(struct rank *rank)
{
	struct store_rank *progress = &rank->store->ranks[rank->rank];
	uint64_t begin_ns;

	for (rank->step = rank->resumed_step < 0 ? 0 : rank->resumed_step; rank->step < rank->options->nr_steps;
	     rank->step++) {
		hooks_before_step(rank);
		begin_ns = clock_now_ns();
		step_run(rank);
		if (rank->step > 0)
			progress->steps_ns += clock_now_ns() - begin_ns;
		progress->steps_done++;
	}
}

void rank_resume_later(struct rank *rank)
{
	struct store_rank *shared = &rank->store->ranks[rank->rank];

	atomic_store(&shared->resume_generation, rank->generation + 1);
	atomic_store(&shared->resume_step, rank->step + 1);
	signal(SIGTERM, SIG_DFL);
	raise(SIGTERM);
	_exit(1);
}

void rank_stop(struct rank *rank, const struct injection *injection)
{
	/* The launcher learns from here whose time it is to count. */
	atomic_store(&rank->store->ranks[rank->rank].stopped_for, injection->index + 1);
	kill(rank->pid, SIGSTOP);
}

void rank_live(struct rank *rank)
{
	const struct options *options = rank->options;

	rank_set_up(rank, options);
	comms_create(rank);
	dataloader_start(rank);
	watchdog_start(rank);
	params_broadcast(rank);
	steps_run(rank);
	world_barrier(rank);
	watchdog_stop(rank);
	comms_destroy(rank);
	if (options->result_path)
		job_result_write(options->result_path, rank->rank, rank->step, rank->result);
	dataloader_stop(rank);
	device_close(rank);
}

static void *rank_thread(void *arg)
{
	struct rank *rank = arg;
	char name[16];

	snprintf(name, sizeof(name), "gpu_%d", rank->rank);
	prctl(PR_SET_NAME, name);
	rank_live(rank);
	return NULL;
}

static void ranks_live(struct rank *ranks, int nr_ranks)
{
	pthread_t threads[MAX_RANKS];
	int i;

	for (i = 0; i < nr_ranks; i++) {
		if (pthread_create(&threads[i], NULL, rank_thread, &ranks[i])) {
			fprintf(stderr, "simjob: cannot start the thread of rank %d\n", ranks[i].rank);
			exit(1);
		}
	}
	for (i = 0; i < nr_ranks; i++)
		pthread_join(threads[i], NULL);
}

int rank_main(const struct options *options)
{
	int i, n = options->ranks_per_process;
	int first = env_integer(n > 1 ? "SIMJOB_FIRST_RANK" : "RANK");
	struct store *store = store_attach_or_exit();
	struct rank *ranks = calloc(n, sizeof(*ranks));

	for (i = 0; ranks && i < n; i++)
		ranks[i] = (struct rank){ .options = options, .rank = first + i, .pid = getpid(), .store = store };
	if (!ranks) {
		fprintf(stderr, "simjob: rank %d: out of memory\n", first);
		return 1;
	}
	if (n == 1)
		rank_live(ranks);
	else if (options->threads == THREADS_ONE)
		ranks_live_in_one_thread(ranks, n);
	else
		ranks_live(ranks, n);
	free(ranks);
	return 0;
}
