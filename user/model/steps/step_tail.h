/* SPDX-License-Identifier: Apache-2.0
 *
 * step_tail.h - what a step gets behind its optimizer: the next one's, where no wait for data ends it.
 */
#ifndef RANKTRACE_STEP_TAIL_H
#define RANKTRACE_STEP_TAIL_H

#include "model/phases.h"

struct step_tail {
	uint64_t gpu_wait_ns, wait_ns, exposed_most_ns, storage_ns, gc_ns, gc_in_ns;
	uint64_t storage_longest_ns;
	uint32_t storage_at;
};

/* gc_in_ns: collections in PHASE_OTHER of the step. */
struct step_tail step_tail_now(const struct step_done *s, uint64_t gc_in_ns);
void step_tail_set(struct step_done *s, uint64_t *gc_in_ns, const struct step_tail *t);
/* What came between the two. */
struct step_tail step_tail_between(const struct step_tail *then, const struct step_tail *now);

#endif
