/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_cause.h - what is wrong with the GPU of a slow rank, when a finding of this tick or an XID says so.
 */
#ifndef RANKTRACE_GPU_CAUSE_H
#define RANKTRACE_GPU_CAUSE_H

#include "detect/detect.h"

/* Of a finding that names one rank: its cause becomes "gpu_throttled"..., with the figures as evidence, and it a
 * consequence of that GPU's finding. Nothing is known of the GPU: no change. */
void gpu_cause_set(const struct model *m, const struct finding_list *found, struct finding *f);

/* A finding of this tick says it of the GPU of this rank. */
bool gpu_is_ill(const struct finding_list *found, const struct proc *p);

/* What stops a rank for good: its GPU is lost or wants a reset, an XID of the hardware or driver, one of the program
 * that is surely this rank's, a driver that does not answer. The key of that finding; 0 none. */
uint64_t gpu_stop_key(const struct finding_list *found, uint64_t proc);

#endif
