/* SPDX-License-Identifier: Apache-2.0
 *
 * ps_stacks.h - `ranktrace ps --stacks`: what every thread of the training processes does, equal stacks grouped.
 */
#ifndef RANKTRACE_PS_STACKS_H
#define RANKTRACE_PS_STACKS_H

#include "inspect/discover/discover.h"

/* The end of a list of training processes: says why it is empty or not whole. Returns the exit code. */
int ps_end(size_t n_shown);
/* Prints `pid` and its descendants; 0: all training processes. Scan the set before. Returns an exit code. */
int ps_stacks_print(struct reader *r, struct target_set *set, uint32_t pid, bool json);

#endif
