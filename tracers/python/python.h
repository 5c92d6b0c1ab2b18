/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * python.h - the record of the python tracer, and the map of collections that run.
 */
#ifndef RANKTRACE_PYTHON_H
#define RANKTRACE_PYTHON_H

#include "tracers/python/wire/python.h"

#define PYTHON_THREADS_MAX 8192 /* of which collections are known */

enum python_kind { PYTHON_GC = 1 };

struct python_gc_record {
	struct wire_hdr hdr;
	struct python_gc body;
};
_Static_assert(sizeof(struct python_gc_record) == 48, "python_gc_record");

enum {                   /* rows of python.c */
       PYTHON_ROW_START, /* static marks */
       PYTHON_ROW_DONE,
       PYTHON_ROW_ENTRY, /* the function, where it has a name */
       PYTHON_ROW_RETURN,
       PYTHON_ROWS,
};

/* Of a thread, by its tid. */
struct python_thread {
	__u64 begin_ns; /* of the collection that runs; 0 none */
	__u64 short_ns; /* short ones that are in no record yet */
	__u32 n_short, tgid;
	__u32 row; /* by which the one that runs was seen to begin */
	__u32 reserved;
};

#endif
