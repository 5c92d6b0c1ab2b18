/* SPDX-License-Identifier: Apache-2.0
 *
 * link_cause.h - whether a finding about a link explains why a rank's transfers do not move.
 */
#ifndef RANKTRACE_LINK_CAUSE_H
#define RANKTRACE_LINK_CAUSE_H

#include "detect/detect.h"

/* The key of this tick's finding about a port that this process has open, or may have, or about where its TCP
 * connections go; else that of congestion there; 0 none. */
uint64_t link_cause_key(const struct model *m, const struct finding_list *found, const struct proc *p);

#endif
