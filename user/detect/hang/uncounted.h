/* SPDX-License-Identifier: Apache-2.0
 *
 * uncounted.h - stage 5: ranks that wait where NCCL counts nothing, as in AlltoAll, Send, Recv and the creation of a
 * communicator, and no call is seen, or the calls before were not: no number says who is late, all only stand. Takes a
 * job of which every rank is seen and none is behind; names the one rank whose host sleeps outside of NCCL while all
 * others wait inside.
 */
#ifndef RANKTRACE_UNCOUNTED_H
#define RANKTRACE_UNCOUNTED_H

#include "detect/hang/wait_roots.h"
#include "base/keyed.h"
#include "detect/hang/classify.h"
#include "detect/rank/forget.h"

struct uncounted { /* from tick to tick */
	struct keyed_table jobs;
	struct forgetting forgetting;
};

/* Learns from the pauses that ended. To be called at every tick. 0 or -ENOMEM. */
int uncounted_refresh(struct uncounted *u, const struct model *m, struct suspects *all);
/* Called where nothing else explains the wait. 0 or -ENOMEM. */
int uncounted_report(struct uncounted *u, const struct model *m, const struct suspects *all,
		     const struct wait_roots *roots, struct finding_list *found);
void uncounted_free(struct uncounted *u);
/* Ranks whose stacks would decide, `ahead_ns` before that is due: at most `max`. */
int uncounted_unread(const struct model *m, uint64_t ahead_ns, const struct proc **ret, int max);

#endif
