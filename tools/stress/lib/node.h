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
/* This thread stays on those of them that its cpuset has; if these are none, or the node is not known (-1), on all that
 * it has. A launcher's mask does not count: it binds a process, to one CPU often, and here each thread needs one. */
void node_stay(const char *sysfs, int node);
/* How many CPUs that are; 0: it cannot be said. */
int node_usable(const char *sysfs, int node);
/* What the control groups of this process leave it of them (cpu.max), in percent of one; 0: no limit. */
int cpus_quota(const char *sysfs, const char *procfs);

/* Distances as the kernel's (ACPI's SLIT): 10 of a node to itself, twice that takes twice as long. */
enum {
	NODE_OWN = 10,
	NODE_OTHER = 20, /* where the kernel has no distances */
	NODE_UNKNOWN = 254
};

/* How far `to` is from a device of node `from`; -1, a guest that does not say: NODE_UNKNOWN. */
int node_distance(const char *sysfs, int from, int to);

#endif
