/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * python.h - collections of garbage in one thread of a Python program: the body of the record, the event's and what the
 * model reads.
 */
#ifndef RANKTRACE_WIRE_PYTHON_H
#define RANKTRACE_WIRE_PYTHON_H

#include "schemas/wire.h"

struct python_gc {
	__u64 begin_ns; /* of the last collection */
	__u64 busy_ns;  /* all of them took; of one that runs: up to now */
	__u32 n;        /* that are over: the last, and short ones before it; 0: it runs still */
	__u32 reserved;
};
_Static_assert(sizeof(struct python_gc) == 24, "python_gc");

#endif
