/* SPDX-License-Identifier: Apache-2.0
 *
 * node.h - memory nodes (NUMA): their CPUs, how far one is from another. `sysfs`: "/sys", or a test's.
 */
#ifndef STRESS_LIB_NODE_H
#define STRESS_LIB_NODE_H

#include <sched.h>
#include <stdbool.h>

/* False: the node has none, or is not there. */
bool node_cpus(const char *sysfs, int node, cpu_set_t *cpus);
/* A cpuset lets this process have memory of it. */
bool node_is_allowed(int node);
/* This thread stays on those of them that it may use; if these are none, or the node is not known (-1), where it is. */
void node_stay(const char *sysfs, int node);

/* Distances as the kernel's (ACPI's SLIT): 10 of a node to itself, twice that takes twice as long. */
enum {
	NODE_OWN = 10,
	NODE_OTHER = 20, /* where the kernel has no distances */
	NODE_UNKNOWN = 254
};

/* How far `to` is from a device of node `from`; -1, a guest that does not say: NODE_UNKNOWN. */
int node_distance(const char *sysfs, int from, int to);

#endif
