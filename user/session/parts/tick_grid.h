/* SPDX-License-Identifier: Apache-2.0
 *
 * tick_grid.h - when the detectors have their turn: at fixed times, a period apart. A loop that comes late has it when
 * it comes, and the next one is no later for that; two are half a period apart at least.
 */
#ifndef RANKTRACE_TICK_GRID_H
#define RANKTRACE_TICK_GRID_H

#include <stdbool.h>
#include <stdint.h>

struct tick_grid {
	uint64_t period_ns, grid_ns; /* the next of the fixed times */
	uint64_t due_ns;             /* of the next turn: that time, or somewhat later */
};

/* The first turn is a period from now. */
void tick_grid_begin(struct tick_grid *g, uint64_t period_ns, uint64_t now_ns);
bool tick_grid_due(const struct tick_grid *g, uint64_t now_ns);
/* From then on other work has to wait for it: it is a quarter of a period late. */
uint64_t tick_grid_latest_ns(const struct tick_grid *g);
/* They have it now, whether it is due or not. */
void tick_grid_take(struct tick_grid *g, uint64_t now_ns);

#endif
