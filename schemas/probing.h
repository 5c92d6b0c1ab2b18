/* SPDX-License-Identifier: Apache-2.0
 *
 * probing.h - facts about the probing itself: who is probed for what, since when.
 */
#ifndef RANKTRACE_PROBING_H
#define RANKTRACE_PROBING_H

#include "schemas/facts.h"

enum fact_tier_number { FACT_TIER_WATCH = 0, FACT_TIER_TRACE = 1, FACT_TIER_BURST = 2 };

struct fact_tier {           /* ts: behind the change; below trace nothing of the process' calls is seen from here on */
	struct wire_hdr hdr; /* tgid */
	__u64 incident;      /* number of the one that raised it; 0 none */
	__u8 tier, before;   /* enum fact_tier_number */
	__u8 reserved[6];
};
_Static_assert(sizeof(struct fact_tier) == 40, "fact_tier");

/* Of probes: what is taken from a process that pays too much for them. */
enum fact_probe_group {
	FACT_PROBES_NEEDED = 0,
	FACT_PROBES_CALLS = 1,
	FACT_PROBES_POLLS = 2,
	FACT_PROBES_POSTS = 3,
	FACT_PROBES_BURST = 4,
	FACT_PROBES_EVENTS = 5,
	FACT_PROBE_GROUPS = 6,
};

enum fact_budget_what {
	FACT_BUDGET_COST = 0,
	FACT_BUDGET_SHED = 1,
	FACT_BUDGET_BACK = 2,
	FACT_BUDGET_KEPT = 3,  /* nothing was left that might go; not written any more */
	FACT_BUDGET_WATCH = 4, /* all groups went: nothing of the process' calls is seen until NEEDED comes back */
};
enum fact_budget_flag {
	FACT_BUDGET_OF_NODE = 1, /* the budget of all processes together was exceeded */
	FACT_BUDGET_ASSUMED = 2, /* what a hit costs could not be measured */
	FACT_BUDGET_SHARED = 4,  /* another process paid too much: its probes are this one's too (kernels before 6.6) */
};

struct fact_budget {                 /* ts: behind what was taken away, before what comes back */
	struct wire_hdr hdr;         /* tgid; 0 of FACT_BUDGET_COST */
	__u32 reserved;              /* 0 */
	__u32 budget_ppm;            /* of a core */
	__u64 hits_per_s;            /* traps of the process, by entry and return probes */
	__u64 node_hits_per_s;       /* of all */
	__u32 cost_ns, node_cost_ns; /* of a hit, as they were hit; FACT_BUDGET_COST: of a dear one */
	__u8 what;                   /* enum fact_budget_what */
	__u8 group;                  /* enum fact_probe_group: what goes or comes */
	__u8 shed;                   /* a bit for each group that is not probed from here on */
	__u8 flags;                  /* of enum fact_budget_flag */
	__u32 reserved2;
};
_Static_assert(sizeof(struct fact_budget) == 64, "fact_budget");

#endif
