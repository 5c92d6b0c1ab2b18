/* SPDX-License-Identifier: Apache-2.0
 *
 * long_work.c - see long_work.h.
 */
#include "session/parts/long_work.h"

#include <stdbool.h>

int long_work_run(const struct long_part *parts, size_t n, unsigned int *next, struct laps *laps,
		  const struct tick_grid *ticks, void *of)
{
	bool ends = *next; /* the turn before */
	int err;

	do {
		err = parts[*next].run(of, laps->at_ns);
		laps_add(laps, parts[*next].lap);
		*next = (*next + 1) % n;
	} while (!err && *next && (ends || laps->at_ns < tick_grid_latest_ns(ticks)));
	return err;
}
