/* SPDX-License-Identifier: Apache-2.0
 *
 * node_findings.h - what the nodes of a job found by themselves, and a hub cannot see: probes, the kernel log, devices
 * are theirs. It holds as long as its host says so; the hub's own detectors get it as a cause.
 */
#ifndef RANKTRACE_HUB_NODE_FINDINGS_H
#define RANKTRACE_HUB_NODE_FINDINGS_H

#include "cluster/report.h"
#include "detect/detect.h"
#include "hub/hosts.h"

struct held; /* one of them */

struct node_findings { /* zeroed at first */
	struct held *all;
	size_t n_over; /* of them those that no host says any more, and no detector had */
};

void node_findings_free(struct node_findings *n);
/* Takes the place of all that this host said before: those of this job's processes, or of no process. What no tick was
 * between waits for the next one. 0 or -ENOMEM. */
int node_findings_take(struct node_findings *n, const struct host *h, const Cluster__NodeReport *r, const char *job);
/* Before the hub's own detectors run: what may be a cause. 0 or -ENOMEM. */
int node_findings_causes(struct node_findings *n, const struct model *m, struct finding_list *found);
/* Behind them: what else holds, and none of them reports. The end of a tick. 0 or -ENOMEM. */
int node_findings_others(struct node_findings *n, const struct model *m, struct finding_list *found);

#endif
