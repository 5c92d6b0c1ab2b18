/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * cuda.h - records of the cuda tracer: host waits, event records, stream waits and queries.
 */
#ifndef RANKTRACE_CUDA_H
#define RANKTRACE_CUDA_H

#include "schemas/wire.h"

enum cuda_kind { CUDA_SYNC_BEGIN = 1, CUDA_SYNC_END = 2, CUDA_MARK = 3, CUDA_MARK_WAIT = 4, CUDA_MARK_QUERY = 5 };

#define CUDA_RESULT_UNKNOWN (-1) /* the call's end was seen only by the thread's next call */

/* Probe cookie: row in the low 16 bits; the row says what the function is. */
struct cuda_call {
	__u8 what;       /* enum cuda_kind */
	__u8 sync;       /* enum sync_kind of sync calls */
	__u8 per_thread; /* _ptsz: stream 0 is the thread's default stream */
	__u8 reserved;
};
#define CUDA_CALLS_MAX 64
#define CUDA_STREAM_PER_THREAD 2 /* CU_STREAM_PER_THREAD of cuda.h */

struct cuda_sync { /* begin, and with result and begin_ns the end */
	struct wire_hdr hdr;
	__u64 handle;    /* stream or event; 0 for a context */
	__u64 begin_ns;
	__s32 result;    /* CUresult */
	__u32 sync;      /* enum sync_kind */
};
_Static_assert(sizeof(struct cuda_sync) == 48, "cuda_sync");

struct cuda_mark { /* record: event on stream; wait: stream for event; query: event and its result */
	struct wire_hdr hdr;
	__u64 event, stream;
	__s32 result;
	__u32 reserved;
};
_Static_assert(sizeof(struct cuda_mark) == 48, "cuda_mark");

#endif
