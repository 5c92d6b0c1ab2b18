/* SPDX-License-Identifier: Apache-2.0
 *
 * top_cluster.h - `top` of a cluster: the reports that its child hands on (top_bus.h), judged as every hub judges them.
 * It takes no job and writes no incident: that is the hubs' matter, and any number of people may look.
 */
#ifndef RANKTRACE_CMD_TOP_CLUSTER_H
#define RANKTRACE_CMD_TOP_CLUSTER_H

#include "cmd/cluster/top_bus.h"
#include "hub/follower.h"
#include "top/run.h"

struct top_cluster { /* zeroed at first */
	struct follower f;
	struct top_child child;
	char *bytes; /* read, and not yet a whole report */
	size_t len, cap;
	bool over, cut;
	struct top_part *parts;
	char name[200];
};

/* `r` shows it: origin, child, source, what keys ask. The child is its own from here on. 0 or -errno; close it either
 * way. */
int top_cluster_open(struct top_cluster *c, const char *job, const struct top_child *child, struct top_run *r);
/* Reports until all that are kept were judged. 0; -ENODATA: none came for some seconds; -ETIMEDOUT: some were not yet
 * after a minute; else -errno. */
int top_cluster_catch_up(struct top_cluster *c);
/* Its child's exit code, as top_child_end(). */
int top_cluster_close(struct top_cluster *c);

#endif
