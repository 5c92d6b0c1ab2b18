/* SPDX-License-Identifier: Apache-2.0
 *
 * event_proc.h - who a process is and where it lives, as events and the model have it.
 */
#ifndef RANKTRACE_EVENT_PROC_H
#define RANKTRACE_EVENT_PROC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"

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
	/* Hashes of the job's name, and of pod, container and cgroup, where the session had no room for that text
	 * (base/intern.h): what differs stays so. 0: they are known, or there are none. */
	uint64_t nameless, placeless;
};

/* Whose share of the room for texts: a user's; of root, as whom containers run mostly, the container's. */
static inline uint64_t event_proc_owner(uint32_t user, const char *container)
{
	const uint32_t root = 1;

	return user > root || !container || !*container ? user : hash_text(0, container) | 1ull << 63;
}

#endif
