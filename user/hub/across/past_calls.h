/* SPDX-License-Identifier: Apache-2.0
 *
 * past_calls.h - ranks of different hosts that called different collectives, found from operations that are over: of
 * each 64 collectives of a communicator its agents send one hash. While they are open the detector `mismatch` sees
 * them.
 */
#ifndef RANKTRACE_HUB_PAST_CALLS_H
#define RANKTRACE_HUB_PAST_CALLS_H

#include "base/keyed.h"
#include "cluster/report.h"
#include "detect/detect.h"

struct past_calls { /* zeroed at first */
	struct keyed_table members, comms;
	uint64_t swept_ns;
};

void past_calls_free(struct past_calls *s);
/* What this report of host number `host` says of this job's processes; `at_ns`: when it was made, on the hub's axis. 0
 * or -ENOMEM. */
int past_calls_take(struct past_calls *s, uint32_t host, uint64_t at_ns, const Cluster__NodeReport *r, const char *job);
/* At every tick, behind the detectors: a finding for the communicator in which ranks differed first, unless one of them
 * reports it. 0 or -ENOMEM. */
int past_calls_find(struct past_calls *s, const struct model *m, struct finding_list *found);

#endif
