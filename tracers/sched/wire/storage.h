/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * storage.h - how long a process was blocked in calls on files of one file system: the body of the record, the event's
 * and the model's. Sums since the process is traced; they grow only.
 */
#ifndef RANKTRACE_WIRE_STORAGE_H
#define RANKTRACE_WIRE_STORAGE_H

#include "schemas/wire.h"

enum storage_act { /* what the calls do; numbers are those of records */
		   STORAGE_NONE = 0,
		   STORAGE_READ = 1,
		   STORAGE_WRITE = 2,
		   STORAGE_FLUSH = 3, /* fsync and its like */
		   STORAGE_OPEN = 4,
		   STORAGE_CLOSE = 5, /* of network file systems it writes what was not written */
		   STORAGE_NAMES = 6, /* rename, unlink, stat, directories */
		   STORAGE_FAULT = 7, /* a page of a mapped file was not there */
		   STORAGE_ACTS = 8,
};

/* A file system and an act in 32 bits, as devices have 9 bits of major and 20 of minor number. Device 0: not known. */
#define STORAGE_AT(device, act) ((device) << 3 | (act))
#define STORAGE_DEVICE(at) ((at) >> 3)
#define STORAGE_ACT(at) ((at)&7)
#define STORAGE_MINOR_BITS 20

#define STORAGE_BOUNDS 8 /* of a call's time in ns: up to 0.3 ms, 1, 3, 10, 30, 100 ms, 1 s, 10 s; then longer ones */
#define STORAGE_FILE_LEN 40

struct storage_sum {
	__u32 at; /* STORAGE_AT() */
	__u32 reserved;
	__u64 blocked_ns, calls; /* calls that were blocked at all */
	__u64 longest_ns;        /* of one call */
	__u32 by_length[STORAGE_BOUNDS + 1];
	__u32 reserved2;
	char file[STORAGE_FILE_LEN]; /* last part of the path of the longest call's file; "" not known */
};
_Static_assert(sizeof(struct storage_sum) == 112, "storage_sum");

#endif
