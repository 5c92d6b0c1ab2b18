/* SPDX-License-Identifier: Apache-2.0
 *
 * blame.h - who made the others wait in one iteration, and for how long: the backward walk over last arrivers.
 */
#ifndef RANKTRACE_BLAME_H
#define RANKTRACE_BLAME_H

#include "detect/straggler/blame_set.h"
#include "model/ahead.h"

struct blame {        /* one rank, or several that the host cannot distinguish */
	uint64_t key; /* of these ranks, in any order */
	int n;
	size_t at;    /* its ranks: blames.procs[at] and the n - 1 behind it, proc_key() */
	double gap_s; /* later than the median of its peers by so much */
};

struct blames { /* zeroed at first, reused from walk to walk; blames_free() */
	struct blame *items;
	uint64_t *procs;
	int n, cap;
	size_t n_procs, procs_cap;
	struct blame_set alone, with; /* of a station */
};

/* Walks back from `end`, the operation that ends an iteration of its rank, to `begin`, its counterpart one iteration
 * and `step_s` before. 0 or -ENOMEM. */
int blame_walk(const struct model *m, const struct op *begin, const struct op *end, double step_s, struct blames *ret);

/* blames.c: these ranks together, `key` of all of them, made their peers wait. 0 or -ENOMEM. */
int blames_add(struct blames *all, const struct blame_set *who, uint64_t key, double s);
void blames_free(struct blames *b);

#endif
