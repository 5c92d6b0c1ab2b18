/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU quotas: a control group for each fault that wants one, made by the launcher, entered and left by the rank alone.
 * Either version of control groups. A janitor process removes the groups when the launcher could not.
 */
#ifndef SIMJOB_CPU_LIMIT_H
#define SIMJOB_CPU_LIMIT_H

#include "tools/simjob/job/options.h"

#define CGROUP_PATH_SIZE 512

struct cpu_limits {
	const struct options *options;
	char home[CGROUP_PATH_SIZE]; /* the launcher's own group, to which a rank returns */
	char base[CGROUP_PATH_SIZE]; /* fault N's group is this with N behind it; empty: no fault wants one */
	int janitor_pid;
};

/* Exits with 2, cause and remedy when a fault wants a quota and this process cannot set one. */
void cpu_limits_create(struct cpu_limits *limits, const struct options *options);
/* In a rank to be: where the groups are. */
void cpu_limits_set_env(const struct cpu_limits *limits);
/* Call when no rank is left. */
void cpu_limits_destroy(struct cpu_limits *limits);

/* In a rank: into fault @index's group, and back. 0 or -errno. */
int cpu_limit_enter(int index);
int cpu_limit_leave(void);

#endif
