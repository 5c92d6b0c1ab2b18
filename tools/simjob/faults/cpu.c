// SPDX-License-Identifier: Apache-2.0
/*
 * A rank that gets too little CPU: hogs on the one core that it may run on, or a quota for its process. What suffers is
 * the host's work (--host-ms). Threads that stand for the GPU are not pinned: a GPU does not run on that core.
 */
#include "tools/simjob/faults/faults.h"

#include "tools/simjob/faults/cpu_limit.h"
#include "tools/simjob/faults/hogs.h"
#include "tools/simjob/job/injection.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum cpu_how { CPU_HOG, CPU_QUOTA };

/* All hogs of a rank spin on the same core. */
static struct {
	int nr, core;
	cpu_set_t free_cores; /* where the rank runs without them */
} pins;

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
static void threads_bind(const cpu_set_t *cores)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;

	while (tasks && (task = readdir(tasks))) {
		int tid = atoi(task->d_name);

		if (tid > 0)
			sched_setaffinity(tid, sizeof(*cores), thread_is_gpu(tid) ? &pins.free_cores : cores);
	}
	if (tasks)
		closedir(tasks);
}

/* What is pinned already stays where it is. */
static int hog_core(const struct injection *injection)
{
	return pins.nr > 0 ? pins.core : core_choose(injection->draw);
}

static void rank_pin(void)
{
	cpu_set_t cores;

	CPU_ZERO(&cores);
	CPU_SET(pins.core, &cores);
	threads_bind(&cores);
}

static void hog_begin(struct rank *rank, const struct injection *injection, char *ret_facts, int size)
{
	int core = hog_core(injection);

	if (pins.nr++ == 0)
		sched_getaffinity(0, sizeof(pins.free_cores), &pins.free_cores);
	pins.core = core;
	rank_pin();
	hogs_start(rank, injection, core);
	snprintf(ret_facts, size, ",\"how\":\"hog\",\"core\":%d,\"hogs\":%d", core, injection->n);
}

static void hog_end(struct rank *rank, const struct injection *injection)
{
	hogs_stop(rank, injection);
	if (--pins.nr == 0)
		threads_bind(&pins.free_cores);
}

static void quota_check(const struct rank *rank, int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "simjob: rank %d cannot %s its control group: %s\n", rank->rank, what, strerror(-err));
	exit(1);
}

static void starvation_begin(struct rank *rank, const struct injection *injection)
{
	struct injection_state *state = injection_state(rank, injection);
	char facts[128];

	state->begun = true;
	state->begun_ns = clock_now_ns();
	if (injection->how == CPU_HOG) {
		hog_begin(rank, injection, facts, sizeof(facts));
	} else {
		snprintf(facts, sizeof(facts), ",\"how\":\"quota\",\"percent\":%g", injection->percent);
		quota_check(rank, cpu_limit_enter(injection->index), "enter");
	}
	injection_report_with(rank, injection, "begin", facts);
}

static void starvation_end(struct rank *rank, const struct injection *injection)
{
	injection_state(rank, injection)->done = true;
	if (injection->how == CPU_HOG)
		hog_end(rank, injection);
	else
		quota_check(rank, cpu_limit_leave(), "leave");
	injection_report(rank, injection, "end", NULL);
}

static bool is_over(const struct rank *rank, const struct injection *injection, const struct injection_state *state)
{
	double lasted_s = (double)(clock_now_ns() - state->begun_ns) / NSEC_PER_SEC;

	return rank->step >= injection->until_step || lasted_s >= injection->duration_s;
}

static void before_step(struct rank *rank, const struct injection *injection)
{
	const struct injection_state *state = injection_state(rank, injection);

	if (injection->rank != rank->rank || state->done)
		return;
	if (state->begun && is_over(rank, injection, state))
		starvation_end(rank, injection);
	else if (state->begun && injection->how == CPU_HOG)
		rank_pin(); /* threads that have come since */
	else if (!state->begun && rank->step >= injection->step && rank->step < injection->until_step)
		starvation_begin(rank, injection);
}

static void complete(struct injection *injection)
{
	injection->resource = injection->how == CPU_HOG ? &resource_hogs : &resource_cpu_limit;
}

static int hog_check(const struct injection *injection, struct reason *reason)
{
	if (injection->given & KEY_PERCENT)
		return refuse(reason, "percent= is of how=quota; say n= hogs");
	if (injection->n < 1)
		return refuse(reason, "n=0 is no hog; n is 1 to 64");
	return 0;
}

static int quota_options_check(const struct options *options, const struct injection *injection, struct reason *reason)
{
	const struct injection *other;

	if (injection->given & KEY_N)
		return refuse(reason, "n= is of how=hog; say percent=");
	if (injection->percent < 1)
		return refuse(reason, "percent=%g: a quota is at least 1 percent of a core", injection->percent);
	for (other = options->injections; other < injection; other++) {
		if (other->resource == &resource_cpu_limit && injection->rank >= 0 && other->rank == injection->rank)
			return refuse(reason, "rank %d has two quotas; leave one out", injection->rank);
	}
	return 0;
}

static int check(const struct options *options, const struct injection *injection, struct reason *reason)
{
	if (injection->how == CPU_HOG)
		return hog_check(injection, reason);
	return quota_options_check(options, injection, reason);
}

const struct fault fault_cpu = {
	.keys = KEY_RANK | KEY_STEP | KEY_UNTIL | KEY_SEC | KEY_HOW | KEY_N | KEY_PERCENT,
	.how = WORDS("hog", "quota"),
	.default_s = FAULT_FOREVER,
	.default_percent = 20,
	.complete = complete,
	.check = check,
	.before_step = before_step,
};
