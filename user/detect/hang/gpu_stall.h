/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_stall.h - stage 5, where no call is seen: all ranks entered the same, by NCCL's counters, and nothing moves; what
 * the GPUs do says whether they wait in NCCL, and for whom. Takes the model; gives a hang/inside_gpu of the rank whose
 * GPU does something else, a missing_enter of one whose host gives its GPU nothing, or one without a culprit where all
 * of them wait.
 */
#ifndef RANKTRACE_GPU_STALL_H
#define RANKTRACE_GPU_STALL_H

#include "base/keyed.h"
#include "detect/detect.h"
#include "detect/hang/classify.h"
#include "detect/hang/wait_roots.h"
#include "detect/rank/forget.h"

struct gpu_stalls { /* zeroed at first */
	struct keyed_table jobs;
	struct forgetting forgetting;
};

/* Every tick: learns how long this job's pauses are, and, for all rules, how long a host kept its peers waiting. 0 or
 * -ENOMEM. */
int gpu_stalls_refresh(struct gpu_stalls *s, const struct model *m, struct suspects *all);
/* Of jobs in which no rank is a root by itself. 0 or -ENOMEM. */
int gpu_stalls_report(const struct gpu_stalls *s, const struct model *m, const struct suspects *all,
		      const struct wait_roots *roots, struct finding_list *found);
/* The host of this rank waits for its GPU, or to launch more, while that runs a kernel that is none of NCCL's and does
 * no work, or nothing at all, while its peers' GPUs wait in NCCL. By samples since `since_ns`. */
bool gpu_stall_holds(const struct model *m, const struct proc *p, uint64_t since_ns);
/* For a finding about a rank that its peers wait for: what its GPU does while theirs wait in NCCL. A GPU that does not
 * get to the end of something keeps the host from coming. */
void gpu_stall_explain(struct finding *f, const struct model *m, const struct proc *p, struct finding_list *found);
/* For a finding that has no culprit yet, about an operation that all entered: the odd one, if there is one, is. */
void gpu_stall_name(struct finding *f, const struct model *m, const struct job_id *job, struct finding_list *found);
void gpu_stalls_free(struct gpu_stalls *s);

#endif
