/* SPDX-License-Identifier: Apache-2.0
 *
 * cgroup_path.h - what the names of its cgroups say of a process: container, Kubernetes pod, Slurm step. The names are
 * conventions of container runtimes, of either cgroup version and either driver (systemd, cgroupfs).
 */
#ifndef RANKTRACE_TARGET_CGROUP_PATH_H
#define RANKTRACE_TARGET_CGROUP_PATH_H

#include <stdint.h>

struct cgroup_names {
	char container[16]; /* first 12 digits of the innermost container's id, an LXC container's name; "" none */
	char pod[40];       /* uid as the API server shows it; 32 digits for a static pod; "" none */
	char slurm[48];     /* "77.0": job and step; "" none */
	char path[192];     /* of the unified hierarchy, else of the first; of a long one the end */
};

/* The text of /proc/PID/cgroup. The first line that says something decides. */
void cgroup_names_parse(const char *text, struct cgroup_names *ret);
/* Takes no lock of the target. All empty where it cannot be read. */
void cgroup_names_read(uint32_t pid, struct cgroup_names *ret);

#endif
