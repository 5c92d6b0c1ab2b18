/* SPDX-License-Identifier: Apache-2.0
 *
 * teardown.h - is the death of a rank part of the end of its job?
 */
#ifndef RANKTRACE_TEARDOWN_H
#define RANKTRACE_TEARDOWN_H

#include "model/ahead.h"

/* The death of this rank belongs to the end of its job, or may. */
bool death_is_teardown(const struct model *m, const struct proc *p);
/* It died by a signal or with an exit code other than 0, and not with its job. */
bool death_is_fault(const struct model *m, const struct proc *p);
/* A rank of the job that died of that inside what all entered, and left a communicator that others still have: its
 * peers stand there since `since_ns`, and none is behind. NULL: none. */
const struct proc *death_inside(const struct model *m, const struct job_id *job, uint64_t since_ns);

/* Who asks that of thousands of ranks asks with this: zeroed at first, good for one tick. */
struct deaths {
	const struct proc *of; /* of its job, and of jobs as large: */
	uint64_t first_ns, last_ns;
	int n_dead, n_alive;
};
bool death_is_fault_of(struct deaths *d, const struct model *m, const struct proc *p);

#endif
