/* SPDX-License-Identifier: Apache-2.0
 *
 * publish.h - the simulated agents on a real bus, at the pace of a clock: hubs, `ranktrace incidents` and `ranktrace
 * top` see a job of thousands of ranks. There is no judge here.
 */
#ifndef RANKTRACE_SIMCLUSTER_PUBLISH_H
#define RANKTRACE_SIMCLUSTER_PUBLISH_H

#include "tools/simcluster/trial.h"

/* After `warm_s` the first of the faults, then t->watch_s more, or until a signal. A line on stdout says what was done
 * to whom. 0 or -errno, after a message where the bus cannot be had. */
int publish_run(struct run *r, const struct trials *t, const char *url, double warm_s);

#endif
