/* SPDX-License-Identifier: Apache-2.0
 *
 * python_records.c - what the probes on CPython write. The record's body is the event's.
 */
#include <errno.h>

#include "record.h"
#include "tracers/python/python.h"

static int decode_gc(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	(void)rec;
	(void)strings;
	return e->python_gc.begin_ns && e->python_gc.begin_ns <= e->ts_ns ? 1 : -EINVAL;
}

const struct record_kind source_records_python[] = {
	{ "python_gc", .tracer = WIRE_PYTHON, .kind = PYTHON_GC, RECORD_AS_EVENT(EV_PYTHON_GC, python_gc),
	  .times = { offsetof(struct python_gc_record, body.begin_ns) }, .decode = decode_gc },
	{}
};
