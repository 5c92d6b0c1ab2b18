// SPDX-License-Identifier: Apache-2.0
/*
 * A rank that gets too little CPU: hogs on the one core that it may run on, or a quota for its process. What suffers is
 * the host's work (--host-ms). Threads that stand for the GPU are not pinned: a GPU does not run on that core.
 */
#include "cpu_limit.h"
#include "tools/simjob/job/rank.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool thread_is_gpu(int tid)
{
	char path[64], name[32] = "";
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	length = fd < 0 ? 0 : read(fd, name, sizeof(name) - 1);
	if (fd >= 0)
		close(fd);
	return length > 0 && !strncmp(name, "cuda-EvtHandlr", 14);
}

/* A thread that stands for a GPU may have been made by a pinned one, and inherited its cores. */
static void threads_bind(const struct rank *rank, const cpu_set_t *cores)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;

	while (tasks && (task = readdir(tasks))) {
		int tid = atoi(task->d_name);

		if (tid > 0)
			sched_setaffinity(tid, sizeof(*cores), thread_is_gpu(tid) ? &rank->free_cores : cores);
	}
	if (tasks)
		closedir(tasks);
}

/* Whoever is pinned already stays where it is. */
static int core_choose(const struct rank *rank, const struct fault *fault)
{
	int core, left;
	cpu_set_t cores;

	if (rank->nr_pins > 0)
		return rank->pinned_core;
	if (sched_getaffinity(0, sizeof(cores), &cores) < 0 || CPU_COUNT(&cores) == 0)
		return 0;
	left = fault->draw % CPU_COUNT(&cores);
	for (core = 0; core < CPU_SETSIZE; core++) {
		if (CPU_ISSET(core, &cores) && left-- == 0)
			break;
	}
	return core;
}

static void hogs_set(struct rank *rank, int index, uint32_t number)
{
	atomic_store(&rank->store->hog_cores[index], number);
	futex_wake_all(&rank->store->hog_cores[index]);
}

static void rank_pin(const struct rank *rank)
{
	cpu_set_t cores;

	CPU_ZERO(&cores);
	CPU_SET(rank->pinned_core, &cores);
	threads_bind(rank, &cores);
}

static void hog_begin(struct rank *rank, int index, char *ret_facts, int size)
{
	const struct fault *fault = &rank->options->faults[index];
	int core = core_choose(rank, fault);

	if (rank->nr_pins++ == 0)
		sched_getaffinity(0, sizeof(rank->free_cores), &rank->free_cores);
	rank->pinned_core = core;
	rank_pin(rank);
	hogs_set(rank, index, core + 1);
	snprintf(ret_facts, size, ",\"how\":\"hog\",\"core\":%d,\"hogs\":%d", core, fault->n);
}

static void hog_end(struct rank *rank, int index)
{
	hogs_set(rank, index, 0);
	if (--rank->nr_pins == 0)
		threads_bind(rank, &rank->free_cores);
}

static void quota_check(const struct rank *rank, int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "simjob: rank %d cannot %s its control group: %s\n", rank->rank, what, strerror(-err));
	exit(1);
}

static void starvation_begin(struct rank *rank, int index)
{
	const struct fault *fault = &rank->options->faults[index];
	char facts[128];

	rank->fault_begun[index] = true;
	rank->fault_begun_ns[index] = clock_now_ns();
	if (fault->how == CPU_HOG) {
		hog_begin(rank, index, facts, sizeof(facts));
	} else {
		snprintf(facts, sizeof(facts), ",\"how\":\"quota\",\"percent\":%g", fault->percent);
		quota_check(rank, cpu_limit_enter(index), "enter");
	}
	fault_report_with(rank, fault, "begin", facts);
}

static void starvation_end(struct rank *rank, int index)
{
	const struct fault *fault = &rank->options->faults[index];

	rank->fault_done[index] = true;
	if (fault->how == CPU_HOG)
		hog_end(rank, index);
	else
		quota_check(rank, cpu_limit_leave(), "leave");
	fault_report(rank, fault, "end", NULL, NULL);
}

static bool is_over(const struct rank *rank, int index)
{
	const struct fault *fault = &rank->options->faults[index];
	double lasted_s = (double)(clock_now_ns() - rank->fault_begun_ns[index]) / NSEC_PER_SEC;

	return rank->step >= fault->until_step || lasted_s >= fault->duration_s;
}

void cpu_faults_before_step(struct rank *rank)
{
	const struct options *options = rank->options;
	int i;

	if (rank->nr_pins > 0)
		rank_pin(rank);
	for (i = 0; i < options->nr_faults; i++) {
		const struct fault *fault = &options->faults[i];

		if (fault->kind != FAULT_CPU || fault->rank != rank->rank || rank->fault_done[i])
			continue;
		if (rank->fault_begun[i] && is_over(rank, i))
			starvation_end(rank, i);
		else if (!rank->fault_begun[i] && rank->step >= fault->step && rank->step < fault->until_step)
			starvation_begin(rank, i);
	}
}
