/* SPDX-License-Identifier: Apache-2.0
 *
 * blame.h - who made the others wait in one iteration, and for how long: the backward walk over last arrivers.
 */
#ifndef RANKTRACE_BLAME_H
#define RANKTRACE_BLAME_H

#include "model/model.h"

#define BLAME_SET_MAX 16

struct blame { /* one rank, or several that the host cannot distinguish */
	int n;
	const struct proc *procs[BLAME_SET_MAX];
	const struct op *from[BLAME_SET_MAX]; /* of the walk */
	bool scanned[BLAME_SET_MAX];
	double gap_s; /* later than the median of its peers by so much */
};

struct blames { /* zeroed at first, reused from walk to walk; blames_free() */
	struct blame *items;
	int n, cap;
};

/* Walks back from `end`, the operation that ends an iteration of its rank, to `begin`, its counterpart one iteration
 * and `step_s` before. 0 or -ENOMEM. */
int blame_walk(const struct model *m, const struct op *begin, const struct op *end, double step_s, struct blames *ret);
void blames_free(struct blames *b);

#endif
