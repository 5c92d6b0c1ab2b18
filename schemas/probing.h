/* SPDX-License-Identifier: Apache-2.0
 *
 * probing.h - records about the probing itself: who is probed for what, since when.
 */
#ifndef RANKTRACE_PROBING_H
#define RANKTRACE_PROBING_H

#include "schemas/collector.h"

enum record_tier_number { RECORD_TIER_WATCH = 0, RECORD_TIER_TRACE = 1, RECORD_TIER_BURST = 2 };

struct record_tier {         /* ts: behind the change; below trace nothing of the process' calls is seen from here on */
	struct wire_hdr hdr; /* tgid */
	__u64 incident;      /* number of the one that raised it; 0 none */
	__u8 tier, before;   /* enum record_tier_number */
	__u8 reserved[6];
};
_Static_assert(sizeof(struct record_tier) == 40, "record_tier");

/* Of probes: what is taken from a process that pays too much for them. */
enum record_probe_group {
	RECORD_PROBES_NEEDED = 0,
	RECORD_PROBES_CALLS = 1,
	RECORD_PROBES_POLLS = 2,
	RECORD_PROBES_POSTS = 3,
	RECORD_PROBES_BURST = 4,
	RECORD_PROBES_EVENTS = 5,
	RECORD_PROBES_RANGES = 6,
	RECORD_PROBES_GC = 7,
	RECORD_PROBE_GROUPS = 8,
};

enum record_budget_what {
	RECORD_BUDGET_COST = 0,
	RECORD_BUDGET_SHED = 1,
	RECORD_BUDGET_BACK = 2,
	RECORD_BUDGET_KEPT = 3,  /* nothing was left that might go; not written any more */
	RECORD_BUDGET_WATCH = 4, /* all groups went: nothing of the process' calls is seen until NEEDED comes back */
};
enum record_budget_flag {
	RECORD_BUDGET_OF_NODE = 1, /* the budget of all processes together was exceeded */
	RECORD_BUDGET_ASSUMED = 2, /* what a hit costs could not be measured */
	RECORD_BUDGET_SHARED =
		4, /* another process paid too much: its probes are this one's too (kernels before 6.6) */
};

struct record_budget {               /* ts: behind what was taken away, before what comes back */
	struct wire_hdr hdr;         /* tgid; 0 of RECORD_BUDGET_COST */
	__u32 reserved;              /* 0 */
	__u32 budget_ppm;            /* of a core */
	__u64 hits_per_s;            /* traps of the process, by entry and return probes */
	__u64 node_hits_per_s;       /* of all */
	__u32 cost_ns, node_cost_ns; /* of a hit, as they were hit; RECORD_BUDGET_COST: of a dear one */
	__u8 what;                   /* enum record_budget_what */
	__u8 group;                  /* enum record_probe_group: what goes or comes */
	__u8 shed;                   /* a bit for each group that is not probed from here on */
	__u8 flags;                  /* of enum record_budget_flag */
	__u32 reserved2;
};
_Static_assert(sizeof(struct record_budget) == 64, "record_budget");

#endif
