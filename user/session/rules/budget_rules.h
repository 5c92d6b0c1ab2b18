/* SPDX-License-Identifier: Apache-2.0
 *
 * budget_rules.h - decides which probe groups a process has, by what they cost. Pure: four times a second the kernel's
 * counters go in, changes come out.
 *
 * The promise: no process pays more than twice its budget for longer than two seconds, whatever it does.
 *
 * States of a group in a process:
 *
 *     held ----------> trial -------> in -----------> out -------> trial -> in
 *          admission         1 s          over budget      return
 *
 * held: a process that ran before the session begins with PROBES_NEEDED alone. One that the session sees from its start
 *     has all groups at once: it calls nothing yet, and its first calls are what a model of it stands on.
 * admission: the next group comes when the newest was measured for a second, or for a quarter of a second while all
 *     together cost under half of the budget. Order: calls, CUDA events, polls, collections, ranges, launches.
 * trial: one second. As soon as the process has paid more in it than the budget of a second, the group goes again.
 * over budget, quick: above one and a half times the budget for three samples. As many groups go as bring the rest
 *     under the budget. If it is above that again within a second (the program does something else now), all groups go.
 * over budget, slow: the mean of eight seconds is above the budget, each sample counted as four budgets at most, and so
 *     are three of these eight seconds: a spike is no reason.
 * which: the group with the least evidence for its cost: its cost divided by its worth (`worth`, budget_rules.c). One
 * that costs less than a tenth of the process' whole stays: without it nothing would be gained. When only PROBES_NEEDED
 *     is left to go, all go (BUDGET_WATCH): the process is watched from outside, as in tier watch.
 * return: after BUDGET_BACK_NS under half of the budget, on trial again; the next time after four times as long, and
 *     never after BUDGET_BACKS returns. A group that went with all others, but was not to blame, follows them by
 *     admission. RDMA posts never return: completions are matched to them by count.
 *
 * The budget of all processes together (node_ppm) works alike: the process that pays most gives first.
 *
 * Where the kernel cannot take probes from one process (cfg.shared: before 6.6), a change holds for all processes, and
 * no group is held or on trial.
 *
 * A hit costs its trap, by the price of its probe, and what our program takes: own_price.h.
 */
#ifndef RANKTRACE_BUDGET_RULES_H
#define RANKTRACE_BUDGET_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "event.h"

/* A group comes back after so long below half of the budget; the next time after four times as long. */
#define BUDGET_BACK_NS 60000000000ull
#define BUDGET_BACKS 2 /* after so many returns the group stays away */
/* Groups that admission holds back. RDMA posts are placed where tables of functions come to light, not by group. */
#define BUDGET_HELD \
	(1u << PROBES_CALLS | 1u << PROBES_EVENTS | 1u << PROBES_POLLS | 1u << PROBES_GC | 1u << PROBES_RANGES | \
	 1u << PROBES_BURST)

struct budget_cfg {
	uint32_t price_ns;   /* unit of budget_sample.paid */
	uint32_t own_ns;     /* what our program adds to a trap, until runs of it were timed */
	uint32_t idle_ns;    /* of a timed run, what the trap's price holds already */
	uint32_t budget_ppm; /* millionths of a core, per process; 0: no limit */
	uint32_t node_ppm;   /* the same for all processes together; 0: no limit */
	bool shared;         /* probes serve all processes that map the file: what goes, goes from all */
};

struct budget_sample {
	uint32_t tgid;
	uint64_t start_ns;                               /* of the process: key together with tgid */
	bool probed;                                     /* its tier has probes; otherwise its state is kept */
	uint32_t missing;                                /* groups of its tier that it does not have, one bit each */
	uint32_t hits[PROBE_GROUPS], paid[PROBE_GROUPS]; /* counters, total so far; they wrap */
	uint32_t own_runs[PROBE_GROUPS], own_ns[PROBE_GROUPS]; /* the same: timed runs of our programs */
};

struct budget_order {
	uint32_t tgid;
	enum budget_what what; /* SHED, BACK or WATCH */
	enum probe_group group;
	bool quiet;                                                /* BACK: the group was held, its first time */
	uint32_t shed;                                             /* groups that are out then, one bit each */
	uint64_t hits_per_s, node_hits_per_s, hit_ns, node_hit_ns; /* hit_ns: cost of one hit */
	uint32_t budget_ppm;                                       /* the budget that was exceeded, or is kept */
	bool of_node;
};

struct budget_sums { /* since the beginning */
	uint64_t hits, paid_ns;
	double peak_ns_per_s; /* of one process */
	uint32_t peak_tgid, n_shed, n_back;
};

struct budget_rules;
struct budget_rules *budget_rules_new(const struct budget_cfg *cfg); /* NULL without memory */
void budget_rules_free(struct budget_rules *g);
/* Other limits from the next sample on. */
void budget_limits(struct budget_rules *g, uint32_t budget_ppm, uint32_t node_ppm);
/* One sample, about every 250 ms: begin, note each living process, end. A process that was not noted is forgotten. */
void budget_sample_begin(struct budget_rules *g, uint64_t now_ns);
int budget_sample_note(struct budget_rules *g, const struct budget_sample *l); /* 0 or -ENOMEM */
void budget_sample_end(struct budget_rules *g);
/* Returns the next due change, which counts as made. False: none is due. */
bool budget_next(struct budget_rules *g, struct budget_order *ret);
const struct budget_sums *budget_sums(const struct budget_rules *g);

#endif
