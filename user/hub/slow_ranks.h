/* SPDX-License-Identifier: Apache-2.0
 *
 * slow_ranks.h - who makes its peers on other hosts wait, by how long operations last: who arrives last waits least. No
 * clock of one host is compared with another's. Only where calls are seen, as of ranks that have probes for a while.
 */
#ifndef RANKTRACE_HUB_SLOW_RANKS_H
#define RANKTRACE_HUB_SLOW_RANKS_H

#include "base/keyed.h"
#include "cluster/report.h"
#include "detect/detect.h"
#include "hub/hosts.h"

struct slow_ranks { /* zeroed at first */
	struct keyed_table members, comms, procs;
	uint64_t judged_ns;
	uint64_t width_s; /* of what sums are kept by; doubled where operations are rarer than that can hold; 0 is 1 */
};

void slow_ranks_free(struct slow_ranks *s);
/* What this report says of the operations of this job's processes. 0 or -ENOMEM. */
int slow_ranks_take(struct slow_ranks *s, const struct host *h, const Cluster__NodeReport *r, const char *job);
/* At every tick, behind the detectors: a finding for each rank that has been slow for some seconds, which none of them
 * reports. 0 or -ENOMEM. */
int slow_ranks_find(struct slow_ranks *s, const struct model *m, struct finding_list *found);

#endif
