/* SPDX-License-Identifier: Apache-2.0
 *
 * node_cpus.h - the CPUs of a memory node.
 */
#ifndef STRESS_LIB_NODE_CPUS_H
#define STRESS_LIB_NODE_CPUS_H

#include <sched.h>
#include <stdbool.h>

/* `sysfs`: "/sys", or a test's. False: the node has none, or is not there. */
bool node_cpus(const char *sysfs, int node, cpu_set_t *cpus);
/* This thread stays on those of them that it may use; if these are none, or the node is not known (-1), where it is. */
void node_stay(const char *sysfs, int node);

#endif
