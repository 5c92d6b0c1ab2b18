/* SPDX-License-Identifier: Apache-2.0
 *
 * pressure.h - what tasks waited for (PSI): the record, and the text of a PSI file.
 */
#ifndef RANKTRACE_PRESSURE_H
#define RANKTRACE_PRESSURE_H

#include "schemas/collector.h"

enum pressure_resource { PRESSURE_CPU, PRESSURE_MEMORY, PRESSURE_IO, PRESSURE_RESOURCES };

struct record_pressure {
	struct wire_hdr hdr;                   /* tgid: the process whose cgroup it is; 0 the host */
	__u64 stall_ns[PRESSURE_RESOURCES][2]; /* some, full */
	__u64 throttled_ns;                    /* of the cgroup and its parents, by CPU quota */
	__u32 known;
	__u32 reserved;
};
_Static_assert(sizeof(struct record_pressure) == 88, "record_pressure");

/* Adds what the text says of one resource; lines that are not there stay unknown. Any input is fine. */
void pressure_parse(const char *text, int resource, struct record_pressure *to);

#endif
