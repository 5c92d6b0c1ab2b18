/* SPDX-License-Identifier: Apache-2.0
 *
 * report_records.h - a node's report as the records that a session on that node would have written: from here on a hub
 * is a session of many hosts. What was said before is not said again.
 */
#ifndef RANKTRACE_HUB_REPORT_RECORDS_H
#define RANKTRACE_HUB_REPORT_RECORDS_H

#include "base/keyed.h"
#include "cluster/report.h"
#include "hub/hosts.h"
#include "pipeline/pipeline.h"

struct fed { /* what a pipeline was given of all hosts; zeroed at first */
	struct keyed_table procs, threads, nodes, gpus, blocked;
};

void fed_free(struct fed *f);
bool fed_knows(const struct fed *f, const struct host *h); /* some report of it was fed */

/* Of the report's processes those of this job. 0 or -ENOMEM. */
int report_feed(struct fed *f, struct pipeline *p, const struct host *h, const Cluster__NodeReport *r, const char *job);
/* Once a second: processes that are not listed any more are gone, and what is gone is forgotten. 0 or -ENOMEM. */
int fed_settle(struct fed *f, struct pipeline *p);
/* The host reports, or has fallen silent (or is paused); of a host that the pipeline knows. 0 or -ENOMEM. */
int host_heard_feed(struct fed *f, struct pipeline *p, const struct host *h, bool silent);

#endif
