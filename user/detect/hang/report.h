/* SPDX-License-Identifier: Apache-2.0
 *
 * report.h - the finding that names one rank for something it lacks, with all that is known of what it does instead.
 */
#ifndef RANKTRACE_REPORT_H
#define RANKTRACE_REPORT_H

#include "detect/rank/activity.h"
#include "detect/detect.h"
#include "detect/hang/pending.h"

struct culprit {
	const struct proc *proc;
	struct pending pending; /* of an operation, not of a creation */
	struct rank_activity activity;
	enum finding_kind kind; /* hang or observation */
	enum hang_class class;
	enum finding_cause cause;
	double confidence;
};

int culprit_report(const struct model *m, const struct culprit *c, struct finding_list *found);

/* teardown.c: does the death of this rank belong to the end of its job, or may it? */
bool death_is_teardown(const struct model *m, const struct proc *p);

#endif
