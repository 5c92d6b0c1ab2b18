/* SPDX-License-Identifier: Apache-2.0
 *
 * probing.h - facts about the probing itself: who is probed for what, since when.
 */
#ifndef RANKTRACE_PROBING_H
#define RANKTRACE_PROBING_H

#include "facts.h"

enum fact_tier_number { FACT_TIER_WATCH = 0, FACT_TIER_TRACE = 1, FACT_TIER_BURST = 2 };

struct fact_tier {         /* ts: behind the change; below trace nothing of the process' calls is seen from here on */
	struct wire_hdr hdr;   /* tgid */
	__u64 incident;        /* number of the one that raised it; 0 none */
	__u8 tier, before;     /* enum fact_tier_number */
	__u8 reserved[6];
};
_Static_assert(sizeof(struct fact_tier) == 40, "fact_tier");

#endif
