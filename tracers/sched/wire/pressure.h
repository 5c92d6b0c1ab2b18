/* SPDX-License-Identifier: Apache-2.0
 *
 * pressure.h - what tasks waited for (PSI). The body of the record, the event's and the model's.
 */
#ifndef RANKTRACE_WIRE_PRESSURE_H
#define RANKTRACE_WIRE_PRESSURE_H

#include <stdint.h>

#include "schemas/wire.h"

enum pressure_resource { PRESSURE_CPU, PRESSURE_MEMORY, PRESSURE_IO, PRESSURE_RESOURCES };

struct pressure_totals {
	uint64_t stall_ns[PRESSURE_RESOURCES]
			 [2];  /* time in which some, or all, tasks waited; 0 the kernel keeps none */
	uint64_t throttled_ns; /* of the cgroup and its parents, by CPU quota */
	uint32_t known;        /* bit 2 * resource + (0 some, 1 all) */
	uint32_t reserved;
};

struct record_pressure {
	struct wire_hdr hdr; /* tgid: the process whose cgroup it is; 0 the host */
	struct pressure_totals body;
};
_Static_assert(sizeof(struct record_pressure) == 88, "record_pressure");

#endif
