/* SPDX-License-Identifier: Apache-2.0
 *
 * entered.h - of an operation: when all of its communicator had entered it, and whether one of them died. Asked of each
 * rank's operation, and the same for all ranks of a communicator: answers are kept for a tick, or a tick of a large job
 * would be the square of its ranks.
 */
#ifndef RANKTRACE_ENTERED_H
#define RANKTRACE_ENTERED_H

#include "detect/rank/teardown.h"

#define ENTERED_KEPT 1024

struct entered { /* zeroed at first but for the model; good for one tick */
	const struct model *m;
	struct {
		const struct comm *comm;
		int space;
		uint64_t seq, ns; /* of the operation of that number */
	} entries[ENTERED_KEPT];
	struct {
		const struct comm *comm;
		uint64_t ns;
	} crashes[ENTERED_KEPT];
	struct deaths deaths;
};

/* When the last member had come to it; 0: not all entered, or not all are seen. */
uint64_t entered_last_ns(struct entered *e, const struct op *op);
/* The last death among its members that is a fault; 0: none. */
uint64_t entered_crashed_ns(struct entered *e, const struct comm *c);

#endif
