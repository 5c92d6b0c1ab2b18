// SPDX-License-Identifier: Apache-2.0
/*
 * A GPU that does not get to the job's next work: a kernel in front of it that never ends, on one SM or on all, or
 * (idle) a callback of the host that does not return. Early in the step the host soon waits for it, and its peers for
 * the host; late, behind the last gradients, every host enters what its peers enter.
 */
#include "tools/simjob/faults/faults.h"

#include "tools/simjob/job/rank.h"
#include "tools/simjob/libnvml/gpu_state.h"

#include <unistd.h>

#define FOREVER_NS (1000000 * NSEC_PER_SEC)

static uint64_t duration_ns(const struct injection *injection)
{
	return injection->duration_s >= FAULT_FOREVER ? FOREVER_NS : (uint64_t)(injection->duration_s * NSEC_PER_SEC);
}

static void hold(void *end_ns)
{
	while (clock_now_ns() < *(uint64_t *)end_ns)
		usleep(10000);
}

static void show(const struct rank *rank, const struct injection *injection, uint64_t end_ns)
{
	struct sim_gpus *gpus = sim_gpus_map();
	struct sim_gpu *gpu = gpus && rank->rank < SIM_GPUS_MAX ? &gpus->gpus[rank->rank] : NULL;

	if (!gpu)
		return;
	gpu->load_ns = clock_now_ns();
	gpu->load_end_ns = end_ns;
	gpu->load = SIM_GPU_SPIN_ONE + injection->what;
}

enum spin_how { SPIN_EARLY, SPIN_LATE };

static void begin(struct rank *rank, const struct injection *injection)
{
	struct injection_state *state = injection_state(rank, injection);
	static uint64_t end_ns;

	if (injection->rank != rank->rank || rank->step < injection->step || state->begun)
		return;
	state->begun = true;
	end_ns = clock_now_ns() + duration_ns(injection);
	injection_report(rank, injection, "begin", NULL);
	show(rank, injection, end_ns);
	if (SIM_GPU_SPIN_ONE + injection->what == SIM_GPU_HELD)
		cuda_check(&rank->api, rank->api.cuLaunchHostFunc(rank->compute, hold, &end_ns), "cuLaunchHostFunc");
	else
		compute_launch(rank, duration_ns(injection));
}

static void before_step(struct rank *rank, const struct injection *injection)
{
	if (injection->how == SPIN_EARLY)
		begin(rank, injection);
}

static void after_last_bucket(struct rank *rank, const struct injection *injection, const struct op_call *call)
{
	(void)call;
	if (injection->how == SPIN_LATE)
		begin(rank, injection);
}

const struct fault fault_spin = {
	.keys = KEY_RANK | KEY_STEP | KEY_SEC | KEY_WHAT | KEY_HOW,
	.what = WORDS("one-sm", "all-sms", "idle"),
	.how = WORDS("early", "late"),
	.default_s = FAULT_FOREVER,
	.before_step = before_step,
	.after_last_bucket = after_last_bucket,
};
