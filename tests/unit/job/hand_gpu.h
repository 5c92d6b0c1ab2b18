/* SPDX-License-Identifier: Apache-2.0
 *
 * hand_gpu.h - a GPU for each rank of hand_job.h, as plain structs: what NVML says of them is set by hand.
 */
#ifndef RANKTRACE_HAND_GPU_H
#define RANKTRACE_HAND_GPU_H

#include "tests/unit/job/hand_job.h"

static struct gpu gpus[HAND_RANKS];

static inline void hand_gpus(void)
{
	for (int r = 0; r < HAND_RANKS; r++) {
		gpus[r] = (struct gpu){ .node = &node, .next = r + 1 < HAND_RANKS ? &gpus[r + 1] : NULL };
		gpus[r].name = gpus[r].uuid = "";
		gpus[r].device = (struct gpu_device){
			.index = r, .pci = (0x10ull + r) << 8, .n_nvlinks = 18, .pcie_width_max = 16
		};
		gpus[r].procs = (struct gpu_procs){ .index = r, .n = 1, .pids = { HAND_PID(r) } };
	}
	node.gpus.all = gpus;
}

static inline struct gpu_sampled *hand_sample(struct gpu *g, uint64_t ts_ns, struct gpu_sample s)
{
	struct gpu_sampled *l = &g->samples[g->n_samples++ % GPU_SAMPLES_KEPT];

	*l = (struct gpu_sampled){ ts_ns, s };
	return l;
}

#endif
