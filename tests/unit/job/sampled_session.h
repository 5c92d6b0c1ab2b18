/* SPDX-License-Identifier: Apache-2.0
 *
 * sampled_session.h - a session that sees only NCCL's counters, twice a second, of a job that runs or that stopped. Of
 * one test program.
 */
#ifndef RANKTRACE_SAMPLED_SESSION_H
#define RANKTRACE_SAMPLED_SESSION_H

#include "tests/unit/job/outside_samples.h"

#define STILL_S 4.0 /* a rank of an ordinary job that hangs is named by then */

static int n_open; /* findings of the last tick that are hangs */
static double open_s;

/* A session: it came when the job was an hour old, and every process had started just now. */
static void session(void)
{
	m->hang_floor_ns = 1500 * MSEC;
	ranks_appear();
	n_open = 0;
}

static int hangs(void)
{
	int n = 0;

	for (size_t i = 0; i < list.n; i++)
		n += list.items[i].kind == FINDING_HANG;
	return n;
}

/* So long nothing changes. How long until a hang was named, within that; -1: none was. */
static double stands(const uint64_t n[RANKS], double seconds)
{
	uint64_t begin = now;

	open_s = -1;
	while (now - begin < (uint64_t)(seconds * SEC)) {
		world(n);
		tick();
		n_open = hangs();
		if (n_open && open_s < 0)
			open_s = (now - begin) / 1e9;
	}
	return open_s;
}

/* All enter so many, a second; it goes on for some seconds. */
static void runs(uint64_t n[RANKS], int a_second, int seconds)
{
	for (int i = 0; i < 2 * seconds; i++) {
		for (int r = 0; r < RANKS; r++)
			n[r] += a_second / 2;
		world(n);
		tick();
		assert_int_equal(hangs(), 0);
	}
}

#endif
