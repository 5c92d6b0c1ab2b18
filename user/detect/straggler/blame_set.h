/* SPDX-License-Identifier: Apache-2.0
 *
 * blame_set.h - ranks between which a charge cannot be divided: each once, in the order in which they were found, and
 * found again in constant time, as a set may be half of a job of ten thousand ranks.
 */
#ifndef RANKTRACE_BLAME_SET_H
#define RANKTRACE_BLAME_SET_H

#include "model/ahead.h"

struct blame_part {
	const struct proc *proc;
	const struct op *from; /* its newest operation that others waited for: what it did later delayed no rank here */
	bool scanned;          /* from there on */
};

struct blame_set { /* zeroed at first, reused from begin to begin; blame_set_free() */
	struct blame_part *parts;
	int n, cap;
	int *slots; /* 2 * cap, by the process: 1 + the index of its part; 0: free */
	int most;
	bool open; /* more than `most` ranks, or with whom is not known: nothing can be charged to it */
	int err;   /* -ENOMEM; it is open then */
};

/* One rank, to which at most `most` - 1 others come. */
void blame_set_begin(struct blame_set *s, int most, const struct op *from);
/* The rank of `from`, or a newer operation of one that is in it, which is to be scanned again then. */
void blame_set_add(struct blame_set *s, const struct op *from);
bool blame_set_has(const struct blame_set *s, const struct proc *p);
void blame_set_free(struct blame_set *s);

#endif
