/* SPDX-License-Identifier: Apache-2.0
 *
 * stalled_op.h - stage 5: an operation that all entered and that does not end. Takes the model; gives a hang: of the
 * transfer that is proven to stall (transfer/stalled_transfer.h), else of the oldest such operation, without a culprit.
 * Its other part serves the stages before: ranks in such an operation are no roots.
 */
#ifndef RANKTRACE_STALLED_OP_H
#define RANKTRACE_STALLED_OP_H

#include "base/keyed.h"
#include "detect/detect.h"
#include "detect/rank/forget.h"
#include "detect/hang/wait_roots.h"

/* A rank inside an operation that all entered does not come elsewhere for that reason: it is no root. Where a transfer
 * is proven to stall, every rank that sleeps waits for it, by whatever way. */
void stalled_op_filter_roots(const struct model *m, struct wait_roots *found);
/* Transfers are in progress, and there were too few samples to prove that one stalls: a rank that lags since then may
 * wait for it. */
bool stalled_op_undecided(const struct model *m, uint64_t since_ns);

struct stalled_ops { /* zeroed at first: what each job is used to */
	struct keyed_table jobs;
	struct forgetting forgetting;
};

/* Every tick: learns how long operations of a job take that all entered. 0 or -ENOMEM. */
int stalled_ops_refresh(struct stalled_ops *s, const struct model *m);
/* Of jobs in which no rank is a root by itself. 0 or -ENOMEM. */
int stalled_op_report(const struct stalled_ops *s, const struct model *m, const struct wait_roots *roots,
		      struct finding_list *found);
void stalled_ops_free(struct stalled_ops *s);

#endif
