/* SPDX-License-Identifier: Apache-2.0
 *
 * seat_activity.h - what a late thread does instead that calls for some of the ranks of its process (seats.h).
 */
#ifndef RANKTRACE_SEAT_ACTIVITY_H
#define RANKTRACE_SEAT_ACTIVITY_H

#include "detect/rank/activity.h"

/* `whole`: all ranks of the process are late; tid 0: no thread is known. */
struct rank_activity seats_activity(const struct model *m, const struct proc *p, uint32_t tid, bool whole,
				    uint64_t since_ns);

#endif
