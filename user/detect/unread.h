/* SPDX-License-Identifier: Apache-2.0
 *
 * unread.h - a rank whose memory cannot be read, because its mmap_lock is held, and whose peers stand still.
 */
#ifndef RANKTRACE_UNREAD_H
#define RANKTRACE_UNREAD_H

#include "detect/detect.h"

/* Adds a hang/host_blocked of that rank; called when nobody else is late. 0 or -ENOMEM. */
int unread_report(const struct model *m, struct finding_list *found);

#endif
