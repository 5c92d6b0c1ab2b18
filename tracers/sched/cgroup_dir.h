/* SPDX-License-Identifier: Apache-2.0
 *
 * cgroup_dir.h - the directories of a process' cgroups, in either version, as far as this process sees the hierarchy.
 * Takes no lock of the target's.
 */
#ifndef RANKTRACE_TARGET_CGROUP_DIR_H
#define RANKTRACE_TARGET_CGROUP_DIR_H

#include <stdbool.h>

#define CGROUP_PATH_MAX 512

struct cgroup_mount {
	char dir[CGROUP_PATH_MAX], root[CGROUP_PATH_MAX];
}; /* dir "": none; root: the cgroup that dir shows */

struct cgroup_mounts {
	struct cgroup_mount v1_cpu, v1_freezer, v2;
};

/* Where the hierarchies are mounted, from a file as /proc/self/mountinfo. 0 or -errno. */
int cgroup_mounts_read(const char *mountinfo, struct cgroup_mounts *ret);
/* The directory of the cgroup that rules the CPU of a process, and the top of what is mounted, from the text of
 * /proc/PID/cgroup. -ENOENT: not to be seen from here. `*ret_v2` says which files lie there. */
int cgroup_cpu_dir(const struct cgroup_mounts *m, const char *text, char dir[2 * CGROUP_PATH_MAX], bool *ret_v2);
/* The same of its freezers: each hierarchy has one. */
int cgroup_freezer_dir(const struct cgroup_mounts *m, const char *text, bool v2, char dir[2 * CGROUP_PATH_MAX]);

#endif
