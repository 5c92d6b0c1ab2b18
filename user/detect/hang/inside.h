/* SPDX-License-Identifier: Apache-2.0
 *
 * inside.h - everybody entered and nothing completes: stuck inside an operation, or behind something unseen.
 */
#ifndef RANKTRACE_INSIDE_H
#define RANKTRACE_INSIDE_H

#include "detect/detect.h"

/* Adds a hang of unknown class when that is so; called when no rank is late. 0 or -ENOMEM. */
int inside_report(const struct model *m, struct finding_list *found);

#endif
