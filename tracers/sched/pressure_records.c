/* SPDX-License-Identifier: Apache-2.0
 *
 * pressure_records.c - what tasks wait for.
 */
#include "record.h"
#include "schemas/collector.h"

const struct record_kind source_records_pressure[] = {
	{ "pressure", RECORD_AS_EVENT(EV_PRESSURE, pressure), .tracer = WIRE_COLLECTOR, .kind = RECORD_PRESSURE }, {}
};
