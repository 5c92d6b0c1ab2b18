/* SPDX-License-Identifier: Apache-2.0
 *
 * unborn.h - a communicator of the whole job that is being created, seen from outside, and lacks ranks.
 */
#ifndef RANKTRACE_UNBORN_H
#define RANKTRACE_UNBORN_H

#include "detect/detect.h"

/* Adds a hang/init, or an observation, of each rank of this node that has no part of it. 0 or -ENOMEM. */
int unborn_report(const struct model *m, struct finding_list *found);

#endif
