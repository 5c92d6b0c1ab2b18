/* SPDX-License-Identifier: Apache-2.0
 *
 * long_work.h - what of a turn of the loop may take long, a part after the other. Where the detectors' turn becomes
 * overdue amid it, the rest waits for the loop's next turn, which comes at once and ends it however late it is: a host
 * that is always late must not attach at a third of its pace.
 */
#ifndef RANKTRACE_LONG_WORK_H
#define RANKTRACE_LONG_WORK_H

#include <stddef.h>
#include <stdint.h>

#include "session/parts/laps.h"
#include "session/parts/tick_grid.h"

struct long_part {
	int (*run)(void *of, uint64_t now_ns); /* 0 or -errno */
	enum lap lap;                          /* where its time is counted */
};

/* *next: the part to begin with, 0 at first. Not 0 afterwards: the turn was broken off before that one. 0, or the first
 * error of a part, behind which none is run. */
int long_work_run(const struct long_part *parts, size_t n, unsigned int *next, struct laps *laps,
		  const struct tick_grid *ticks, void *of);

#endif
