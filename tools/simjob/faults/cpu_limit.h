/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU quotas: a control group for each injection that needs one, made by the launcher, entered and left by the rank
 * alone. Either version of control groups. A janitor process removes the groups when the launcher could not.
 */
#ifndef SIMJOB_CPU_LIMIT_H
#define SIMJOB_CPU_LIMIT_H

/* In a rank: into the group of the injection @index, and back. 0 or -errno. */
int cpu_limit_enter(int index);
int cpu_limit_leave(void);

#endif
