// SPDX-License-Identifier: Apache-2.0
/* Work that takes longer than usual, on one rank or on all: no rank's fault. */
#include "tools/simjob/life/life.h"

#include "tools/simjob/libpython/gc.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define NR_COMPILERS 2

/* The compiler's workers: children that burn CPU, as torch's inductor starts them. */
static int compiler_start(uint64_t ns)
{
	int pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_NAME, "pt_compile");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	spin_until(clock_now_ns() + ns);
	_exit(0);
}

/* Half of the time all compile, else one does, that has met a new shape; it works itself, or waits for its workers. */
static void recompile_run(struct rank *rank, const struct life_event *event)
{
	int pids[NR_COMPILERS], i;

	if (event->draw % 2 && rank->rank != event->rank)
		return;
	if (event->draw / 2 % 2) {
		spin_until(clock_now_ns() + life_ns(event));
		return;
	}
	for (i = 0; i < NR_COMPILERS; i++)
		pids[i] = compiler_start(life_ns(event));
	for (i = 0; i < NR_COMPILERS; i++) {
		if (pids[i] > 0)
			waitpid(pids[i], NULL, 0);
	}
}

static double long_step_factor(struct rank *rank, const struct life_event *event)
{
	return 1 + event->seconds * 1000 / rank->options->step_ms;
}

/* Micro-batches whose gradients stay: no rank reduces anything meanwhile. */
static void accumulation_run(struct rank *rank, const struct life_event *event)
{
	struct random random = { .state = event->draw + rank->rank };
	int i;

	for (i = 0; i < 8; i++) {
		/* lint: nanoseconds: the rest is nothing */
		compute_launch(rank, life_ns(event) / 8 * (0.8 + 0.4 * random_unit(&random)));
		compute_synchronize(rank);
	}
}

/* gc.collect() of a large heap. */
static void collection_run(struct rank *rank, const struct life_event *event)
{
	if (rank->rank == event->rank)
		sim_python_collect(life_ns(event));
}

/* A layer of experts: tokens to all and back, and some rank's expert has more of them than others. */
static void experts_run(struct rank *rank, const struct life_event *event)
{
	struct random random = { .state = event->draw + rank->rank };
	struct op_call call = { .kind = OP_ALL_TO_ALL, .count = 4096, .datatype = ncclBfloat16 };

	op_run(rank, &rank->world, &call);
	compute_launch(rank, life_ns(event) * random_unit(&random) * random_unit(&random));
	op_run(rank, &rank->world, &call);
}

const struct life_phase life_recompile = {
	.name = "recompile", .every = 230, .min_s = 1, .max_s = 20, .run = recompile_run
};
const struct life_phase life_long_step = {
	.name = "long_step", .every = 190, .steps = 3, .min_s = 1, .max_s = 120, .kernel_factor = long_step_factor
};
const struct life_phase life_accumulation = {
	.name = "accumulation", .every = 60, .steps = 4, .min_s = 0.2, .max_s = 4, .run = accumulation_run
};
const struct life_phase life_collection = {
	.name = "collection", .every = 45, .min_s = 0.05, .max_s = 2, .run = collection_run
};
const struct life_phase life_experts = {
	.name = "experts", .every = 5, .steps = 2, .min_s = 0.05, .max_s = 0.5, .run = experts_run
};
