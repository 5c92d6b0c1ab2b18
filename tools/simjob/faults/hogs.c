// SPDX-License-Identifier: Apache-2.0
/*
 * See hogs.h. They are no children of a rank: what starves a rank on a real host is some other process. A hog is there
 * from the start and reads in the store where to spin, so that nothing has to be started when the fault begins.
 */
#include "hogs.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#define HOG_ENDS UINT32_MAX

static void hog_spin(const _Atomic uint32_t *core, uint32_t number)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(number - 1, &set);
	sched_setaffinity(0, sizeof(set), &set);
	while (atomic_load_explicit(core, memory_order_relaxed) == number)
		;
}

static void hog_run(const _Atomic uint32_t *core, int launcher_pid)
{
	uint32_t number;

	prctl(PR_SET_NAME, "simjob-hog");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (getppid() == launcher_pid && (number = atomic_load(core)) != HOG_ENDS) {
		if (number)
			hog_spin(core, number);
		else
			futex_wait(core, 0, 0);
	}
	_exit(0);
}

static bool fault_wants_hogs(const struct fault *fault)
{
	return (fault->kind == FAULT_CPU && fault->how == CPU_HOG) ||
	       (fault->kind == FAULT_PROXY && fault->how == PROXY_STARVE);
}

void hogs_start(const struct options *options, struct store *store)
{
	int i, n, pid, launcher_pid = getpid();

	for (i = 0; i < options->nr_faults; i++) {
		for (n = 0; fault_wants_hogs(&options->faults[i]) && n < options->faults[i].n; n++) {
			pid = fork();
			if (pid == 0)
				hog_run(&store->hog_cores[i], launcher_pid);
			if (pid < 0) {
				perror("simjob: cannot fork a CPU hog");
				exit(1);
			}
		}
	}
}

void hogs_stop(const struct options *options, struct store *store)
{
	int i;

	for (i = 0; i < options->nr_faults; i++) {
		atomic_store(&store->hog_cores[i], HOG_ENDS);
		futex_wake_all(&store->hog_cores[i]);
	}
}
