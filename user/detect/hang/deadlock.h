/* SPDX-License-Identifier: Apache-2.0
 *
 * deadlock.h - stage 3: cycles of the wait-for graph. Takes those of this tick; reports a cycle once it has stood for
 * the hang floor without a break: as a deadlock, or as the rank that left out its side of a transfer in it.
 */
#ifndef RANKTRACE_DEADLOCK_H
#define RANKTRACE_DEADLOCK_H

#include "detect/detect.h"
#include "detect/hang/wait_roots.h"

struct known_cycle {
	uint64_t fingerprint, since_ns; /* the finding's lasting name; when the cycle was first seen */
	bool seen;                      /* in this tick */
};

struct deadlocks { /* from tick to tick */
	struct known_cycle all[CYCLES_MAX];
	int n;
};

int deadlocks_report(struct deadlocks *d, const struct model *m, const struct wait_roots *roots,
		     struct finding_list *found); /* 0 or -ENOMEM */

#endif
