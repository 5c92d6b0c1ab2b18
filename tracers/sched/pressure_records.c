/* SPDX-License-Identifier: Apache-2.0
 *
 * pressure_records.c - what tasks wait for.
 */
#include <string.h>

#include "record.h"
#include "tracers/sched/pressure.h"

static int pressure(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_pressure *f = (const void *)rec;

	(void)strings;
	e->kind = EV_PRESSURE;
	memcpy(e->pressure.stall_ns, f->stall_ns, sizeof(e->pressure.stall_ns));
	e->pressure.throttled_ns = f->throttled_ns;
	e->pressure.known = f->known;
	return 1;
}

const struct record_kind source_records_pressure[] = { { "pressure", .tracer = WIRE_COLLECTOR, .kind = RECORD_PRESSURE,
							 .size = sizeof(struct record_pressure), .decode = pressure },
						       {} };
