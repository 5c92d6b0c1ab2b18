/* SPDX-License-Identifier: Apache-2.0
 *
 * run.h - job, agents and hub together, in scripted time; or messages go elsewhere.
 */
#ifndef RANKTRACE_SIMCLUSTER_RUN_H
#define RANKTRACE_SIMCLUSTER_RUN_H

#include "tools/simcluster/judge.h"

struct run {
	struct cluster cluster;
	struct agents *agents;
	struct judge *judge;
	struct life life;
	struct fault fault;
	struct draw draw;
	double now_s;
	double hub_late_s; /* the hub is started so long after the fault struck; 0: before the job */
	bool armed;        /* the fault strikes in the step that comes next */
	deliver *deliver;  /* where messages go; the judge */
	void *to;
};

int run_init(struct run *r, const struct shape *s, const struct noise *n, double life_rate, uint64_t seed);
void run_free(struct run *r);
/* Until that time. 0 or -errno. */
int run_until(struct run *r, double to_s);

#endif
