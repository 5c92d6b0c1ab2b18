/* SPDX-License-Identifier: Apache-2.0
 *
 * autopsy_stacks.h - the part of an autopsy's report that shows stacks: equal ones once, those of the fewest ranks
 * first.
 */
#ifndef RANKTRACE_AUTOPSY_STACKS_H
#define RANKTRACE_AUTOPSY_STACKS_H

#include "model/model.h"
#include "sink/text.h"

/* By its environment, else its rank in its largest communicator. */
int autopsy_rank(const struct proc *p);
/* Cuts what was added since `from` to `width` columns, if it is one line; 0: as wide as it is. */
void text_cut(struct text *t, size_t from, int width);
/* Main threads, and what else runs Python or is blocked; what was not read, and why. */
void text_stacks(struct text *t, const struct model *m, int width);

#endif
