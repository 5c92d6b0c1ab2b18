/* SPDX-License-Identifier: Apache-2.0
 *
 * cause.h - what the host did to a slow rank that it did not do to its peers: time without a CPU, in D state, stopped,
 * in driver calls. Totals of the threads that call NCCL, sampled once an iteration, compared over the blamed ones.
 */
#ifndef RANKTRACE_CAUSE_H
#define RANKTRACE_CAUSE_H

#include "base/keyed.h"
#include "finding.h"
#include "detect/straggler/phase_cost.h"
#include "model/ahead.h"

enum host_cost { COST_RUNQ, COST_DISK, COST_STOPPED, COST_ALLOC, COST_FREE, COST_MODULE, COST_GRAPH, COST_MAX };

#define COST_CALLERS 4 /* threads that call NCCL: the main one, PyTorch's backward thread */
#define COSTS_KEPT 12

struct cost_thread {
	uint32_t tid;
	uint64_t seen_ns, ns[COST_STOPPED + 1], preempted;
	const char *behind; /* of the newest sample; of those kept NULL */
};

struct cost_sample {
	uint64_t at_ns;
	struct cost_thread threads[COST_CALLERS];
	int n_threads;
	uint64_t call_ns[CALL_CLASS_MAX];
	uint64_t io_bytes, io_seen_ns;
	uint64_t throttled_ns, throttle_seen_ns;
	uint64_t ready_ns;
	double quota_cores;
	struct phase_totals phases;
};

struct cost_history { /* of one process; newest first */
	struct keyed proc;
	struct cost_sample samples[COSTS_KEPT];
	int n;
};

struct cost_rates { /* seconds per second; -1 not known */
	double cost[COST_MAX], throttled, preempted_per_s, io_bytes_s, quota_cores;
	double ready;       /* without a CPU: all its threads and its children's together, so that it may exceed 1 */
	const char *behind; /* good in this tick alone */
	struct phase_mean phases;
};

struct host_cause {
	enum finding_cause cause;     /* CAUSE_NONE: none found */
	double excess;                /* of the cost over the peers' median */
	struct cost_rates own, usual; /* usual: the peers' median of each */
	struct phase_reason phase;    /* in which phase of the step it takes longer than they */
};

/* A new sample of the rank, into its cost_history of the table. 0 or -ENOMEM. */
int cost_push(struct keyed_table *histories, const struct model *m, const struct proc *p);
/* Rates since `since_ns`, or over the shortest time beyond that the scans show. */
struct cost_rates cost_rates(const struct keyed_table *histories, const struct model *m, const struct proc *p,
			     uint64_t since_ns);
/* Of what stands out from `peers`, the most expensive, if it makes up a good part of `blame_share`; else the phase of
 * the step in which its host takes longer, if that is nearly all of it. */
struct host_cause host_cause(const struct cost_rates *own, const struct cost_rates *peers, int n_peers,
			     double blame_share);
/* Its threads waited for CPUs for a good part of the blame. Its peers' did as long, or it would be the cause; but whose
 * wait falls into what others wait for is luck. */
bool cost_may_be_luck(const struct cost_rates *own, double blame_share);
/* The figures as evidence. */
/* p: the rank, NULL not known any more. */
void host_cause_note(struct finding *f, const struct host_cause *c, const struct proc *p);
/* What tasks of the host, and of the rank's cgroup, waited for between the last two samples (PSI), where that is much.
 */
void pressure_note(struct finding *f, const struct proc *p);

#endif
