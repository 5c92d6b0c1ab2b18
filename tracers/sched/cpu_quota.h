/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu_quota.h - the CPU quota a process runs under: its cgroup's and those of all parents, in either version of
 * cgroups, as far as this process sees the hierarchy. Takes no lock of the target's.
 */
#ifndef RANKTRACE_TARGET_CPU_QUOTA_H
#define RANKTRACE_TARGET_CPU_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#define CGROUP_PATH_MAX 512

struct cgroup_mount {
	char dir[CGROUP_PATH_MAX], root[CGROUP_PATH_MAX];
}; /* dir "": none; root: the cgroup that dir shows */

struct cgroup_mounts {
	struct cgroup_mount v1_cpu, v2;
};

struct cpu_quota {
	double cores;          /* the tightest of all levels; 0 none */
	uint64_t throttled_ns; /* of all levels, summed over CPUs */
	uint64_t periods;      /* in which a level was throttled */
};

/* Where the hierarchies are mounted, from a file as /proc/self/mountinfo. 0 or -errno. */
int cgroup_mounts_read(const char *mountinfo, struct cgroup_mounts *ret);
/* The directory of the cgroup that rules the CPU of a process, and the top of what is mounted, from the text of
 * /proc/PID/cgroup. -ENOENT: not to be seen from here. `*ret_v2` says which files lie there. */
int cgroup_cpu_dir(const struct cgroup_mounts *m, const char *text, char dir[2 * CGROUP_PATH_MAX], bool *ret_v2);
/* All levels from `dir` up to the mount. */
void cpu_quota_read(const struct cgroup_mounts *m, const char *dir, bool v2, struct cpu_quota *ret);

#endif
