/* SPDX-License-Identifier: Apache-2.0
 *
 * tick_grid.c - see tick_grid.h.
 */
#include "session/parts/tick_grid.h"

#include "base/larger.h"

void tick_grid_begin(struct tick_grid *g, uint64_t period_ns, uint64_t now_ns)
{
	*g = (struct tick_grid){ period_ns, now_ns + period_ns, now_ns + period_ns };
}

bool tick_grid_due(const struct tick_grid *g, uint64_t now_ns)
{
	return now_ns >= g->due_ns;
}

uint64_t tick_grid_latest_ns(const struct tick_grid *g)
{
	return g->due_ns + g->period_ns / 4;
}

void tick_grid_take(struct tick_grid *g, uint64_t now_ns)
{
	if (now_ns >= g->grid_ns)
		g->grid_ns += ((now_ns - g->grid_ns) / g->period_ns + 1) * g->period_ns;
	g->due_ns = larger(g->grid_ns, now_ns + g->period_ns / 2);
}
