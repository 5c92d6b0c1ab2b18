/* SPDX-License-Identifier: Apache-2.0
 *
 * stalled_op.h - all entered an operation and it does not end: which transfer over the network stands still, and who or
 * what holds it up, by NCCL's proxy counters (links.h) and by what the proxies' threads do (proxy_thread.h).
 */
#ifndef RANKTRACE_STALLED_OP_H
#define RANKTRACE_STALLED_OP_H

#include "detect/detect.h"
#include "detect/hang/wait_roots.h"

/* Ranks that are inside an operation which all entered lack others for that reason: they are no roots. Where it is
 * proven that one is stuck, whoever sleeps waits for it, by whatever way. */
void stalled_op_filter_roots(const struct model *m, struct wait_roots *found);
/* Transfers are under way, and there were not looks enough yet to prove that one stands still: who looks late since
 * then may be waiting for it. */
bool stalled_op_undecided(const struct model *m, uint64_t since_ns);
/* Adds a hang when one is proven; called when no rank is late by itself. 0 or -ENOMEM. */
int stalled_transfer_report(const struct model *m, struct finding_list *found);
/* Of a rank that is named for whatever reason: how far its transfer is, if it stands in the middle of one. */
void stalled_transfer_note(struct finding *f, struct finding_list *found, const struct model *m, const struct proc *p);

#endif
