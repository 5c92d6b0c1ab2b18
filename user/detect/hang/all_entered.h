/* SPDX-License-Identifier: Apache-2.0
 *
 * all_entered.h - everybody entered and nothing completes: stuck inside an operation, or behind something unseen.
 */
#ifndef RANKTRACE_ALL_ENTERED_H
#define RANKTRACE_ALL_ENTERED_H

#include "detect/detect.h"

/* Adds a hang of unknown class when that is so; called when no rank is late. 0 or -ENOMEM. */
int all_entered_report(const struct model *m, struct finding_list *found);

#endif
