/* SPDX-License-Identifier: Apache-2.0
 *
 * trial.h - faults one after the other, each in a copy of one warmed-up run; and hours of ordinary life. Facts go to
 * stdout, a JSON object a line; what they are worth is said by eval.py.
 */
#ifndef RANKTRACE_SIMCLUSTER_TRIAL_H
#define RANKTRACE_SIMCLUSTER_TRIAL_H

#include "tools/simcluster/run.h"

struct trials {
	enum fault_kind kinds[FAULT_KINDS];
	int n_kinds;
	double severity;
	int n, jobs;    /* of each kind; so many at once */
	double watch_s; /* after the fault's step began */
	uint64_t seed;
	double skew_s;
};

/* `r` is warmed up, and stays as it is. 0 or -errno. */
int trials_run(struct run *r, const struct trials *t);
/* Ordinary life for so long: every five minutes of it a line for each verdict that was open meanwhile, and one of the
 * sums so far; of a number the last line counts, and of the sums. 0 or -errno. */
int life_run(struct run *r, double for_s);

#endif
