/* SPDX-License-Identifier: Apache-2.0
 *
 * event_proc.h - who a process is and where it lives, as events and the model have it.
 */
#ifndef RANKTRACE_EVENT_PROC_H
#define RANKTRACE_EVENT_PROC_H

#include <stdbool.h>
#include <stdint.h>

struct event_proc {
	uint64_t start_ns;
	uint32_t parent_tgid, ns_pid;
	int rank, local_rank, world_size; /* -1 unknown */
	bool is_child;                    /* descendant that belongs to a rank */
	bool rank_inherited;
	uint32_t user;  /* real uid and 1, as its host counts; 0 unknown */
	uint64_t netns; /* inode of its network namespace; 0 unknown */
	/* Texts: "" or NULL unknown. job: the launcher's name. pod: its uid. cgroup: a path, or its end. */
	const char *job, *name, *container, *pod;
	const char *pod_name, *namespace, *cgroup, *boot_id, *slurm_job, *slurm_step;
};

#endif
