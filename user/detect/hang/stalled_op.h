/* SPDX-License-Identifier: Apache-2.0
 *
 * stalled_op.h - stage 5: an operation that all entered and that does not end. Takes the model; gives a hang: of the
 * transfer that is proven to stall (transfer/stalled_transfer.h), else of the oldest such operation, without a culprit.
 */
#ifndef RANKTRACE_STALLED_OP_H
#define RANKTRACE_STALLED_OP_H

#include "base/keyed.h"
#include "detect/detect.h"
#include "detect/rank/forget.h"
#include "detect/hang/wait_roots.h"

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
