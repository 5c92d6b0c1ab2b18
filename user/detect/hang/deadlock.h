/* SPDX-License-Identifier: Apache-2.0
 *
 * deadlock.h - cycles of the graph over time: told once they have stood for the floor without a break.
 */
#ifndef RANKTRACE_DEADLOCK_H
#define RANKTRACE_DEADLOCK_H

#include "detect/detect.h"
#include "detect/hang/wait_roots.h"

struct known_cycle {
	uint64_t fingerprint, since_ns;
	bool seen;
};
struct deadlocks {
	struct known_cycle all[CYCLES_MAX];
	int n;
};

void deadlocks_begin(struct deadlocks *d); /* of a tick */
void deadlocks_end(struct deadlocks *d);   /* what was not seen in it is over */
/* Since when this cycle stands, by what it has in common with those of the last tick, and its lasting name. */
const struct known_cycle *deadlocks_match(struct deadlocks *d, const struct wait_cycle *c, uint64_t now_ns);
int deadlock_report(const struct model *m, const struct wait_cycle *c, uint64_t fingerprint,
		    struct finding_list *found);

#endif
