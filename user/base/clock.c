/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.c - see clock.h.
 */
#include "base/clock.h"

#include <time.h>

static uint64_t clock_read(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

uint64_t clock_monotonic_ns(void)
{
	return clock_read(CLOCK_MONOTONIC);
}

uint64_t clock_boottime_ns(void)
{
	return clock_read(CLOCK_BOOTTIME);
}

uint64_t clock_realtime_offset_ns(void)
{
	return clock_read(CLOCK_REALTIME) - clock_read(CLOCK_MONOTONIC);
}
