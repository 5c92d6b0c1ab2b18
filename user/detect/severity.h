/* SPDX-License-Identifier: Apache-2.0
 *
 * severity.h - how bad a finding is: takes the findings of a tick, gives each its severity. Runs after all detectors,
 * so that the rules stand in one place and a consequence can take its cause's.
 */
#ifndef RANKTRACE_SEVERITY_H
#define RANKTRACE_SEVERITY_H

#include "detect/detect.h"

#define STALL_CRITICAL_NS 30000000000ull  /* a wait of unknown habit that lasts that long */
#define WORKS_CRITICAL_NS 600000000000ull /* the same of one that works; PyTorch gives its process groups up then */

/* XIDs of errors that the driver counts and corrects: the GPU goes on. */
bool xid_is_corrected(int xid);
/* Sets the severity of every finding of this tick. */
void severities_judge(struct finding_list *found, uint64_t now_ns);

#endif
