/* SPDX-License-Identifier: Apache-2.0
 *
 * unobserved.h - stages 2 and 5: a rank that no source can see, and whose peers do not move by their counters. Either
 * it was gone before the first sample (absent: its communicators have a place for it, and no process is there), or its
 * memory cannot be read, because its mmap_lock is held (unread). Takes the model; gives a hang of that rank.
 */
#ifndef RANKTRACE_UNOBSERVED_H
#define RANKTRACE_UNOBSERVED_H

#include "detect/detect.h"
#include "detect/hang/wait_roots.h"

/* Roots that may themselves wait for an absent rank are dropped; then, if nothing else explains why all do not move,
 * that rank is reported. Of several hosts: ranks of which no host has data, as unobserved. 0 or -ENOMEM. */
int absent_report(const struct model *m, struct wait_roots *waits, struct finding_list *found);
/* A hang/host_blocked of the unread rank, in a job that `roots` do not explain. 0 or -ENOMEM. */
int unread_report(const struct model *m, const struct wait_roots *roots, struct finding_list *found);

#endif
