/* SPDX-License-Identifier: Apache-2.0
 *
 * unread.h - a rank whose memory cannot be read, because its mmap_lock is held, and whose peers stand still.
 */
#ifndef RANKTRACE_UNREAD_H
#define RANKTRACE_UNREAD_H

#include "detect/detect.h"

/* Adds a hang/host_blocked of that rank; called when nobody else is late. 0 or -ENOMEM. */
int unread_report(const struct model *m, struct finding_list *found);
/* The communicator that one rank is missing from and all others stand still in, the one used most; NULL none. */
const struct comm *unread_comm(const struct model *m);
/* The last operation that all but that one entered, as far as counters tell. */
void unread_op_name(struct finding *f, const struct comm *c, struct finding_list *found);

/* Evidence comm_one_of: the last operation in each such communicator, where there are several. */
void unread_comms_note(struct finding *f, const struct model *m, struct finding_list *found);

#endif
