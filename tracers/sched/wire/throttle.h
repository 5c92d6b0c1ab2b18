/* SPDX-License-Identifier: Apache-2.0
 *
 * throttle.h - CPU quotas of a process' cgroup and that one's parents. The body of the record, and the event's.
 */
#ifndef RANKTRACE_WIRE_THROTTLE_H
#define RANKTRACE_WIRE_THROTTLE_H

#include <stdint.h>

#include "schemas/wire.h"

struct cpu_throttle {
	uint64_t throttled_ns; /* summed over CPUs and quotas; grows only, also when the process changes its cgroup */
	uint64_t periods;      /* in which it was */
	uint64_t quota_millicores; /* the tightest; 0 none */
};

struct sched_throttle {
	struct wire_hdr hdr; /* tgid */
	struct cpu_throttle body;
};
_Static_assert(sizeof(struct sched_throttle) == 48, "sched_throttle");

#endif
