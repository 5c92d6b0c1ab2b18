/* SPDX-License-Identifier: Apache-2.0
 *
 * comm_init_outside.h - a communicator of the whole job that is being created, seen from outside, and lacks ranks.
 */
#ifndef RANKTRACE_COMM_INIT_OUTSIDE_H
#define RANKTRACE_COMM_INIT_OUTSIDE_H

#include "detect/detect.h"

/* Adds a hang/init, or an observation, of each rank of this node that has no part of it. 0 or -ENOMEM. */
int comm_init_report_outside(const struct model *m, struct finding_list *found);

#endif
