// SPDX-License-Identifier: Apache-2.0
/*
 * See hogs.h. They are no children of a rank: what starves a rank on a real host is some other process. A hog is there
 * from the start and reads in the store where to spin, so that nothing has to be started when the fault begins.
 */
#include "tools/simjob/faults/hogs.h"

#include "tools/simjob/faults/faults.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

/* The word in the store: 1 + the core on which to spin; 0: idle. */
#define HOG_ENDS UINT32_MAX

static const struct options *the_options;
static struct store *the_store;

static void hog_spin(const _Atomic uint32_t *word, uint32_t number)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(number - 1, &set);
	sched_setaffinity(0, sizeof(set), &set);
	while (atomic_load_explicit(word, memory_order_relaxed) == number)
		;
}

static void hog_run(const _Atomic uint32_t *word, int launcher_pid)
{
	uint32_t number;

	prctl(PR_SET_NAME, "simjob-hog");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (getppid() == launcher_pid && (number = atomic_load(word)) != HOG_ENDS) {
		if (number)
			hog_spin(word, number);
		else
			futex_wait(word, 0, 0);
	}
	_exit(0);
}

static void injection_hogs_create(const struct injection *injection, struct store *store)
{
	int i, pid, launcher_pid = getpid();

	for (i = 0; i < injection->n; i++) {
		pid = fork();
		if (pid == 0)
			hog_run(&store->injections[injection->index].resource, launcher_pid);
		if (pid < 0) {
			perror("simjob: cannot fork a CPU hog");
			exit(1);
		}
	}
}

static void hogs_create(const struct options *options, struct store *store)
{
	int i;

	the_options = options;
	the_store = store;
	for (i = 0; i < options->nr_injections; i++) {
		if (options->injections[i].resource == &resource_hogs)
			injection_hogs_create(&options->injections[i], store);
	}
}

static void word_set(_Atomic uint32_t *word, uint32_t number)
{
	atomic_store(word, number);
	futex_wake_all(word);
}

/* They end, and the launcher reaps them. */
static void hogs_release(void)
{
	int i;

	for (i = 0; i < the_options->nr_injections; i++) {
		if (the_options->injections[i].resource == &resource_hogs)
			word_set(&the_store->injections[i].resource, HOG_ENDS);
	}
}

int core_choose(uint64_t left)
{
	cpu_set_t cores;
	int core;

	if (sched_getaffinity(0, sizeof(cores), &cores) < 0 || CPU_COUNT(&cores) == 0)
		return 0;
	left %= CPU_COUNT(&cores);
	for (core = 0; core < CPU_SETSIZE - 1; core++) {
		if (CPU_ISSET(core, &cores) && left-- == 0)
			break;
	}
	return core;
}

void hogs_start(const struct rank *rank, const struct injection *injection, int core)
{
	word_set(&injection_shared(rank, injection)->resource, core + 1);
}

void hogs_stop(const struct rank *rank, const struct injection *injection)
{
	word_set(&injection_shared(rank, injection)->resource, 0);
}

const struct resource resource_hogs = {
	.create = hogs_create,
	.release = hogs_release,
};
