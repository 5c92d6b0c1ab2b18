/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.h - that a job goes on, and that it merely changes: takes its rank processes one after another; gives the
 * newest sign of each. A pause that others look at is over by the first kind alone; a judgement of who waits for whom
 * begins anew at any.
 */
#ifndef RANKTRACE_PROGRESS_H
#define RANKTRACE_PROGRESS_H

#include "model/ahead.h"

struct progress {             /* zeroed at first; 0: no such sign */
	uint64_t changed_ns;  /* a rank went on, came, called anything or died, or a communicator of it is gone */
	uint64_t went_on_ns;  /* a rank that lives called an operation, or counted one */
	uint64_t died_ns;     /* a rank ended */
	uint64_t given_up_ns; /* a communicator of one that lives was there at its last sample, and seems to be gone */
};

/* One more rank process of the job, dead or alive. */
void progress_read(struct progress *g, const struct proc *p);
/* What began then ended by itself, or may have: no rank died since, and none gave up that late. */
bool progress_by_itself(const struct progress *g, uint64_t since_ns, uint64_t now_ns);

#endif
