/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_role.h - what the GPUs of a job do while nothing moves, by NVML's activity counters, and which one is the odd one
 * out. A GPU that waits in a kernel of NCCL keeps one block on each channel's SM and touches no memory: SM activity of
 * channels/SMs, occupancy of one block, tensor and DRAM activity 0, sample for sample alike to the last digit.
 * Measured: docs/measurements/gpu.md.
 */
#ifndef RANKTRACE_GPU_ROLE_H
#define RANKTRACE_GPU_ROLE_H

#include "detect/detect.h"

enum gpu_role {
	GPU_ROLE_UNKNOWN,      /* no GPU known, or too few samples */
	GPU_ROLE_IN_NCCL,      /* waits in a kernel of NCCL */
	GPU_ROLE_OTHER_KERNEL, /* runs one that is not NCCL's: always alike, no matrix work, no memory */
	GPU_ROLE_WORKS,        /* its activity changes, or it uses tensor cores or memory */
	GPU_ROLE_IDLE,         /* runs nothing */
};

struct gpu_activity { /* percent, as of the newest sample */
	enum gpu_role role;
	double sm, occupancy, tensor, dram;
	uint64_t since_ns; /* of what is idle or in a kernel that does not end: as far back as samples show it */
};

struct gpu_odd {
	const struct proc *proc; /* whose GPU does not wait in NCCL while all others' do; NULL: none, or several */
	struct gpu_activity of, peers; /* peers: of one that waits */
	int n_in_nccl, n_known, n_ranks;
	int n_on_host;     /* of those in NCCL: on its host, with an idle GPU */
	uint64_t since_ns; /* since when each of them does what it does, as far back as samples show it */
	double confidence;
};

/* By the samples that lie within [since_ns, now_ns], at least three over 1.5 s: idle, if all are, or those of the last
 * 7 s; in a kernel that does not end, if the newest are alike for so long. */
struct gpu_activity gpu_activity_since(const struct gpu *g, uint64_t since_ns, uint64_t now_ns);
/* The living ranks of this job on the hosts that are seen; the samples of the last seconds, and none from before
 * `since_ns`. */
struct gpu_odd gpu_odd_find(const struct model *m, const struct job_id *job, uint64_t since_ns);
/* For the session: a GPU of the job that runs nothing, or a kernel that is none of NCCL's and does no work; or all
 * wait in NCCL. Where the hosts are may say more. */
bool gpu_some_without_work(const struct model *m, const struct job_id *job, uint64_t since_ns);
/* Its host waited for its GPU as its stack was read, and this runs nothing since then: the host went on, to where a new
 * stack would show it. */
bool gpu_wait_is_over(const struct model *m, const struct proc *p);
/* What the cause of such a finding is; CAUSE_NONE where no GPU is the odd one. */
enum finding_cause gpu_odd_cause(const struct gpu_odd *o);
/* The figures of both sides, and a line for each rank. */
void gpu_odd_note(struct finding *f, struct finding_list *found, const struct model *m, const struct gpu_odd *o,
		  const struct job_id *job, uint64_t since_ns);

#endif
