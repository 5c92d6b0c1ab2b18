/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_work.h - whether a rank's own GPU does work, by NVML's activity counters: matrix work or memory traffic. That
 * SMs are busy says nothing: a kernel that spins for ever keeps them so.
 */
#ifndef RANKTRACE_GPU_WORK_H
#define RANKTRACE_GPU_WORK_H

#include "model/ahead.h"

#define GPU_WORKS_PERCENT \
	1.0 /* of the tensor cores' or the memory's time: polling a flag in memory stays below 0.1 \
	     */

enum gpu_work {
	GPU_WORK_UNKNOWN, /* no GPU known, several of them, one shared with other processes, or too few samples */
	GPU_WORK_NONE,    /* for 1.5 s nothing but SMs that spin, or not even that */
	GPU_WORK_DONE,
};

/* By samples that lie wholly after `since_ns`. */
enum gpu_work rank_gpu_work(const struct model *m, const struct proc *p, uint64_t since_ns);

#endif
