/* SPDX-License-Identifier: Apache-2.0
 *
 * laps.c - see laps.h.
 */
#include "session/parts/laps.h"

#include <string.h>

#include "base/clock.h"

void laps_add(struct laps *l, enum lap lap)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (l->at_ns)
		l->ns[lap] += now_ns - l->at_ns;
	l->at_ns = now_ns;
}

void laps_gap(struct laps *l, uint64_t gap_ns)
{
	if (gap_ns > l->gap_ns) {
		l->gap_ns = gap_ns;
		l->most = LAP_IDLE;
		for (int i = 0; i < LAPS; i++)
			if (l->ns[i] > l->ns[l->most])
				l->most = i;
		l->most_ns = l->ns[l->most];
	}
	memset(l->ns, 0, sizeof(l->ns));
}

const char *lap_name(enum lap lap)
{
	static const char *const names[LAPS] = {
		[LAP_IDLE] = "waiting",      [LAP_RINGS] = "reading rings",
		[LAP_TARGETS] = "attaching", [LAP_SCAN] = "scanning processes",
		[LAP_SAMPLERS] = "sampling", [LAP_STACKS] = "reading stacks",
		[LAP_TICK] = "at a tick",    [LAP_RECORDS] = "in model and outputs",
		[LAP_WRITE] = "writing",
	};

	return names[lap];
}
