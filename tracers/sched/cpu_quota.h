/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu_quota.h - the CPU quota a process runs under: its cgroup's and those of all parents, in either version of
 * cgroups, as far as this process sees the hierarchy. Takes no lock of the target's.
 */
#ifndef RANKTRACE_TARGET_CPU_QUOTA_H
#define RANKTRACE_TARGET_CPU_QUOTA_H

#include <stdint.h>

#include "tracers/sched/cgroup_dir.h"

struct cpu_quota {
	double cores;          /* the tightest of all levels; 0 none */
	uint64_t throttled_ns; /* of all levels, summed over CPUs */
	uint64_t periods;      /* in which a level was throttled */
};

/* All levels from `dir` up to the mount. */
void cpu_quota_read(const struct cgroup_mounts *m, const char *dir, bool v2, struct cpu_quota *ret);

#endif
