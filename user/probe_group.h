/* SPDX-License-Identifier: Apache-2.0
 *
 * probe_group.h - groups of probes, and what is reported of their price. Part of event.h.
 */
#ifndef RANKTRACE_PROBE_GROUP_H
#define RANKTRACE_PROBE_GROUP_H

#include <stdbool.h>
#include <stdint.h>

/* Of a tracer's rows: what is taken from a process that pays too much for its probes
 * (user/session/rules/budget_rules.h). NEEDED: operations, graphs and host waits, which go last and all together.
 * EVENTS: CUDA events, by which streams are joined. RANGES: PyTorch's ranges, which name phases and prove nothing; all
 * of them or none, as a probe sees only which one it is when it was paid for. GC: Python's collections of garbage.
 * POSTS: RDMA posts and completions, which are matched by count and never come back.
 * STAND_INS: rows of CALLS, counted there and taken with it, that add nothing where PyTorch's ranges show whole steps:
 * there they are removed (user/session/targets.h). No record names them. */
enum probe_group {
	PROBES_NEEDED,
	PROBES_CALLS,
	PROBES_POLLS,
	PROBES_POSTS,
	PROBES_BURST,
	PROBES_EVENTS,
	PROBES_RANGES,
	PROBES_GC,
	PROBE_GROUPS,
	PROBES_STAND_INS = PROBE_GROUPS,
	PROBE_SETS /* that are attached and removed as one */
};

/* As it is counted, and recorded. */
static inline enum probe_group probe_group_counted(enum probe_group group)
{
	return group == PROBES_STAND_INS ? PROBES_CALLS : group;
}

const char *probe_group_what(enum probe_group group); /* "cuEventQuery and cuStreamQuery" */

enum budget_what {
	BUDGET_COST /* of a hit: measured, or assumed */,
	BUDGET_SHED,
	BUDGET_BACK,
	BUDGET_KEPT /* nothing left may go: only in recordings from before BUDGET_WATCH */,
	BUDGET_WATCH /* all groups went: the process is watched from outside */
};

struct budget_change {
	enum budget_what what;
	enum probe_group group;               /* SHED, BACK: which */
	uint32_t shed;                        /* groups that are not probed from now on, a bit each */
	uint64_t hits_per_s, node_hits_per_s; /* of the process, of all */
	uint32_t cost_ns, node_cost_ns;       /* of a hit, on average */
	uint32_t budget_ppm;                  /* of a core: the process', or (of_node) that of all together */
	bool of_node, assumed;                /* assumed: the cost could not be measured */
	bool of_other;                        /* another process paid too much, and its probes are this one's too */
};

#endif
