// SPDX-License-Identifier: Apache-2.0
/*
 * Faults of the rank's GPU as NVML shows them, and only there: a bit in SIM_GPU_STATE, in the order of the words of
 * what=. What a real one would do to the job beside is another fault's affair (slow, hang).
 */
#include "tools/simjob/libnvml/gpu_state.h"
#include "tools/simjob/job/rank.h"

#include <stdio.h>

static void begin(struct rank *rank, const struct fault *fault, int index, struct sim_gpu *gpu)
{
	rank->fault_begun[index] = true;
	rank->fault_begun_ns[index] = clock_now_ns();
	gpu->fault_ns = clock_now_ns();
	atomic_fetch_or(&gpu->faults, 1u << fault->what);
	fault_report(rank, fault, "begin", NULL, NULL);
}

static void end(struct rank *rank, const struct fault *fault, int index, struct sim_gpu *gpu)
{
	rank->fault_done[index] = true;
	atomic_fetch_and(&gpu->faults, ~(1u << fault->what));
	fault_report(rank, fault, "end", NULL, NULL);
}

void gpu_faults_before_step(struct rank *rank)
{
	static struct sim_gpus *gpus;
	int i;

	for (i = 0; i < rank->options->nr_faults; i++) {
		const struct fault *fault = &rank->options->faults[i];

		if (fault->kind != FAULT_GPU || fault->rank != rank->rank || rank->step < fault->step ||
		    rank->fault_done[i])
			continue;
		if (!gpus && !(gpus = sim_gpus_map())) {
			fprintf(stderr, "simjob: fault gpu: SIM_GPU_STATE names no file that can be written; "
					"nobody would see it\n");
			exit(2);
		}
		if (!rank->fault_begun[i])
			begin(rank, fault, i, &gpus->gpus[rank->rank]);
		else if (clock_now_ns() - rank->fault_begun_ns[i] >= fault->duration_s * NSEC_PER_SEC)
			end(rank, fault, i, &gpus->gpus[rank->rank]);
	}
}
