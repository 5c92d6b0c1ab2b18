/* SPDX-License-Identifier: Apache-2.0
 *
 * autopsy_cluster.h - an autopsy of a job on all its hosts, by their agents: each is asked for what it sees now.
 */
#ifndef RANKTRACE_CMD_AUTOPSY_CLUSTER_H
#define RANKTRACE_CMD_AUTOPSY_CLUSTER_H

#include "bus/bus.h"
#include "pipeline/pipeline.h"

/* `user`: nothing but this user's ranks; ASK_ANY_USER. `p`: has its outputs, and a keeper for their names. An exit
 * code, whatever is found; why there is nothing is said. */
int autopsy_cluster(const struct bus_cfg *cfg, const char *job, int64_t user, struct pipeline *p);

#endif
