/* SPDX-License-Identifier: Apache-2.0
 *
 * absent.h - a rank that was gone before anybody looked: its communicators have a place for it, and no process is
 * there.
 */
#ifndef RANKTRACE_ABSENT_H
#define RANKTRACE_ABSENT_H

#include "detect/detect.h"
#include "detect/hang/wait_roots.h"

/*
 * Roots that may themselves wait for a rank that is gone are taken off the list; then, if nothing else explains why all
 * stand still, that rank is told. With several hosts: ranks that no host told about, as unobserved.
 */
int absent_report(const struct model *m, struct wait_roots *waits, struct finding_list *found);

#endif
