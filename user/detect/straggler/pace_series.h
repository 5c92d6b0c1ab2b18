/* SPDX-License-Identifier: Apache-2.0
 *
 * pace_series.h - how often a job enters a collective, by a counter that is read once a second: its usual pace, and a
 * lasting drop below it. Knows no model: numbers and times only.
 */
#ifndef RANKTRACE_PACE_SERIES_H
#define RANKTRACE_PACE_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACE_POINTS 320            /* five minutes */
#define PACE_DROP_NS 5000000000ull /* shortest that is reported */

struct pace_series {
	struct {
		uint64_t ns, n;
	} points[PACE_POINTS]; /* ring: number i at i % PACE_POINTS */
	uint64_t n_points;
	/* of a drop */
	size_t width; /* of a window that judges it, in points; 0: there is none */
	uint64_t since_ns;
	double usual, slow;  /* operations a second: before it, and as of now */
	int n_over;          /* points in a row at the usual pace */
	bool explained;      /* set it where somebody is to blame: it does not become a habit */
	uint64_t longest_ns; /* that was over by itself */
};

/* What was learned of the pace is of no use any more. Drops that were over by themselves are remembered. */
void pace_restart(struct pace_series *s);
/* The counter as of ns, later than the last; more than one in 0.9 s are left out. `judge`: a drop may begin now. */
void pace_add(struct pace_series *s, uint64_t ns, uint64_t n, bool judge);
/* There is a drop, and it has lasted for longer than any that is this job's habit. */
bool pace_dropped(const struct pace_series *s, uint64_t now_ns);

#endif
