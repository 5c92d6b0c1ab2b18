/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * ring.h - what the kernel side and the collector agree on about the rings: one per class and NUMA node, found by
 * index in an array of maps, with a word of state each through which the collector is woken.
 */
#ifndef RANKTRACE_SCHEMA_RING_H
#define RANKTRACE_SCHEMA_RING_H

#include "schemas/wire.h"

#define RING_NODES_MAX 64                          /* a power of two; nodes past it share a ring */
#define RING_SLOTS (RING_CLASSES * RING_NODES_MAX) /* index: class * RING_NODES_MAX + node */

struct ring_state {       /* by the same index */
	__u64 wake_bytes; /* wake the collector when that much waits in the ring */
	__u64 woken;      /* 1: it was; the collector clears it before it empties the ring */
};

/* The collector has its turn dozens of times a second. Past `until_ns` (CLOCK_MONOTONIC) it is stopped, or starved:
 * programs on calls return at once, since what they note fits into no ring by then. */
#define COLLECTOR_AWAY_NS 10000000000ull
struct heartbeat {
	__u64 until_ns;
	__u32 clip_ns; /* a run of a probe's program that took longer was interrupted, and counts as that */
	__u32 idle_ns; /* the shortest timed run in a process that is no target: it returned at once */
};

#endif
