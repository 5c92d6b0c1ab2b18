// SPDX-License-Identifier: Apache-2.0
/*
 * Faults of the rank's GPU as NVML shows them, and only there: a bit in SIM_GPU_STATE, in the order of the words of
 * what=. What a real one would do to the job beside is another fault's affair (slow, hang).
 */
#include "tools/simjob/faults/faults.h"

#include "tools/simjob/job/rank.h"
#include "tools/simjob/libnvml/gpu_state.h"

#include <stdio.h>

static void begin(struct rank *rank, const struct injection *injection, struct sim_gpu *gpu)
{
	struct injection_state *state = injection_state(rank, injection);

	state->begun = true;
	state->begun_ns = clock_now_ns();
	gpu->fault_ns = clock_now_ns();
	atomic_fetch_or(&gpu->faults, 1u << injection->what);
	injection_report(rank, injection, "begin", NULL);
}

static void end(struct rank *rank, const struct injection *injection, struct sim_gpu *gpu)
{
	injection_state(rank, injection)->done = true;
	atomic_fetch_and(&gpu->faults, ~(1u << injection->what));
	injection_report(rank, injection, "end", NULL);
}

static struct sim_gpu *gpu_of(const struct rank *rank)
{
	static struct sim_gpus *gpus;

	if (!gpus && !(gpus = sim_gpus_map())) {
		fprintf(stderr, "simjob: fault gpu: SIM_GPU_STATE names no file that can be written; "
				"no tracer would see it\n");
		exit(2);
	}
	return &gpus->gpus[rank->rank];
}

static void before_step(struct rank *rank, const struct injection *injection)
{
	const struct injection_state *state = injection_state(rank, injection);

	if (injection->rank != rank->rank || rank->step < injection->step || state->done)
		return;
	if (!state->begun)
		begin(rank, injection, gpu_of(rank));
	else if (clock_now_ns() - state->begun_ns >= injection->duration_s * NSEC_PER_SEC)
		end(rank, injection, gpu_of(rank));
}

const struct fault fault_gpu = {
	.keys = KEY_RANK | KEY_STEP | KEY_SEC | KEY_WHAT,
	.required = KEY_WHAT,
	.what = WORDS("thermal", "power-brake", "ecc", "rows", "nvlink", "nvlink-down", "pcie", "lost", "silent",
		      "inforom"),
	.default_s = FAULT_FOREVER,
	.before_step = before_step,
};
