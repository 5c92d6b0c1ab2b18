/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * cuda.h - records of the cuda tracer, the numbers of the functions they name, and what the kernel side knows of a
 * probed function (struct cuda_call). The functions themselves are rows of cuda_calls.def.
 */
#ifndef RANKTRACE_CUDA_H
#define RANKTRACE_CUDA_H

#include "schemas/wire.h"

enum cuda_kind {
	CUDA_SYNC_BEGIN = 1,
	CUDA_SYNC_END = 2,
	CUDA_EVENT_RECORD = 3, /* event record */
	CUDA_EVENT_WAIT = 4,   /* a stream waits for an event */
	CUDA_EVENT_QUERY = 5,  /* cuEventQuery */
	CUDA_CALL_END = 6,     /* struct cuda_span: a call returned */
	CUDA_CALL_OPEN = 7,    /* struct cuda_span: a call is still on, from a scan */
	CUDA_STREAM_QUERY = 8, /* struct cuda_event_use, event 0 */
	CUDA_ELAPSED = 9,
	CUDA_CAPTURE = 10,
	CUDA_LAUNCH = 11, /* burst tier, bulk ring: a launch or an asynchronous copy */
	CUDA_COUNTS = 12, /* burst tier, from a scan: totals of one process */
};

#define CUDA_RESULT_UNKNOWN (-1) /* the call's end was seen only by the thread's next call, or is not waited for */
#define CUDA_STREAM_PER_THREAD 2 /* CU_STREAM_PER_THREAD of cuda.h */

/* X(number, name without variant suffix, class): numbers stand in records, so they are only appended. The class is
 * that of EV_CALL (enum call_class without its prefix). */
/* clang-format off */
#define CUDA_FUNCTIONS(X) \
	X(1, cuStreamSynchronize, OTHER) \
	X(2, cuEventSynchronize, OTHER) \
	X(3, cuCtxSynchronize, OTHER) \
	X(4, cuStreamQuery, OTHER) \
	X(5, cuEventQuery, OTHER) \
	X(6, cuEventElapsedTime, OTHER) \
	X(7, cuEventRecord, OTHER) \
	X(8, cuEventRecordWithFlags, OTHER) \
	X(9, cuStreamWaitEvent, OTHER) \
	X(10, cuMemcpy, OTHER) \
	X(11, cuMemcpyDtoH, OTHER) \
	X(12, cuMemcpyHtoD, OTHER) \
	X(13, cuMemcpyDtoD, OTHER) \
	X(14, cuMemcpyPeer, OTHER) \
	X(15, cuMemcpy2D, OTHER) \
	X(16, cuMemcpy2DUnaligned, OTHER) \
	X(17, cuMemcpy3D, OTHER) \
	X(18, cuMemcpy3DPeer, OTHER) \
	X(19, cuStreamBeginCapture, GRAPH) \
	X(20, cuStreamBeginCaptureToGraph, GRAPH) \
	X(21, cuStreamEndCapture, GRAPH) \
	X(22, cuGraphInstantiate, GRAPH) \
	X(23, cuGraphClone, GRAPH) \
	X(24, cuGraphLaunch, OTHER) \
	X(25, cuGraphExecUpdate, GRAPH) \
	X(26, cuGraphDestroy, GRAPH) \
	X(27, cuGraphExecDestroy, GRAPH) \
	X(28, cuGraphUpload, GRAPH) \
	X(29, cuMemAlloc, ALLOC) \
	X(30, cuMemAllocPitch, ALLOC) \
	X(31, cuMemAllocAsync, ALLOC) \
	X(32, cuMemAllocFromPoolAsync, ALLOC) \
	X(33, cuMemAllocHost, ALLOC) \
	X(34, cuMemHostAlloc, ALLOC) \
	X(35, cuMemHostRegister, ALLOC) \
	X(36, cuMemAllocManaged, ALLOC) \
	X(37, cuMemCreate, ALLOC) \
	X(38, cuMemMap, ALLOC) \
	X(39, cuMemSetAccess, ALLOC) \
	X(40, cuMemFree, FREE) \
	X(41, cuMemFreeAsync, FREE) \
	X(42, cuMemFreeHost, FREE) \
	X(43, cuMemHostUnregister, FREE) \
	X(44, cuMemUnmap, FREE) \
	X(45, cuMemRelease, FREE) \
	X(46, cuModuleLoad, MODULE) \
	X(47, cuModuleLoadData, MODULE) \
	X(48, cuModuleLoadDataEx, MODULE) \
	X(49, cuModuleLoadFatBinary, MODULE) \
	X(50, cuModuleUnload, MODULE) \
	X(51, cuLibraryLoadData, MODULE) \
	X(52, cuLibraryLoadFromFile, MODULE) \
	X(53, cuLibraryUnload, MODULE) \
	X(54, cuLinkComplete, MODULE) \
	X(55, cuInit, OTHER) \
	X(56, cuCtxCreate, OTHER) \
	X(57, cuCtxDestroy, OTHER) \
	X(58, cuDevicePrimaryCtxRetain, OTHER) \
	X(59, cuDevicePrimaryCtxRelease, OTHER) \
	X(60, cuDevicePrimaryCtxReset, OTHER) \
	X(61, cuMemImportFromShareableHandle, ALLOC) \
	X(62, cuIpcOpenMemHandle, ALLOC) \
	X(63, cuLaunchKernel, OTHER) \
	X(64, cuLaunchKernelEx, OTHER) \
	X(65, cuLaunchCooperativeKernel, OTHER) \
	X(66, cuMemcpyAsync, OTHER) \
	X(67, cuMemcpyHtoDAsync, OTHER) \
	X(68, cuMemcpyDtoHAsync, OTHER) \
	X(69, cuMemcpyDtoDAsync, OTHER) \
	X(70, cuMemcpyPeerAsync, OTHER) \
	X(71, cuMemcpy2DAsync, OTHER) \
	X(72, cuMemcpy3DAsync, OTHER) \
	X(73, cuMemcpy3DPeerAsync, OTHER) \
	X(74, cuMemsetD8Async, OTHER) \
	X(75, cuMemsetD16Async, OTHER) \
	X(76, cuMemsetD32Async, OTHER) \
	X(77, cuMemsetD2D8Async, OTHER) \
	X(78, cuMemsetD2D16Async, OTHER) \
	X(79, cuMemsetD2D32Async, OTHER)
/* clang-format on */

enum cuda_fn {
	CUDA_FN_UNKNOWN = 0,
#define X(number, name, class) CUDA_FN_##name = number,
	CUDA_FUNCTIONS(X)
#undef X
};

/* What a call is; says what the words a, b and out of struct cuda_in_flight are. */
enum cuda_what {
	CUDA_WAIT_STREAM = 1, /* a stream */
	CUDA_WAIT_EVENT,      /* a event */
	CUDA_WAIT_CONTEXT,
	CUDA_WAIT_COPY,      /* a wait for the default stream, if the struct at its first argument says "to the host" */
	CUDA_ASK_EVENT,      /* a event */
	CUDA_ASK_STREAM,     /* a stream */
	CUDA_ASK_ELAPSED,    /* a start, b end, out float* (ms) */
	CUDA_RECORD,         /* a event, b stream; no return probe */
	CUDA_STREAM_WAITS,   /* a event, b stream; no return probe */
	CUDA_CAPTURE_BEGINS, /* a stream */
	CUDA_CAPTURE_ENDS,   /* a stream, out CUgraph* */
	CUDA_INSTANTIATES,   /* a graph, out CUgraphExec* */
	CUDA_CLONES,         /* a graph cloned, out CUgraph* */
	CUDA_GRAPH_LAUNCHES, /* a exec, b stream */
	CUDA_UPDATES,        /* a exec, b graph */
	CUDA_GRAPH_DESTROYS, /* a graph */
	CUDA_EXEC_DESTROYS,  /* a exec */
	CUDA_TIMED,          /* nothing but how long it takes, and bytes */
	CUDA_LAUNCHES,       /* burst: a stream */
	CUDA_COPIES,         /* burst: a stream */
	CUDA_SETS,           /* burst: a stream */
};

/* CUDA_MEMCPY2D, CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER of cuda.h, all of whose fields here lie alike since 3.2. */
enum cuda_copy { CUDA_COPY_PLAIN, CUDA_COPY_2D, CUDA_COPY_3D };

/* What the kernel side knows of a probed function. Arguments count from 1; 0: it has none. */
struct cuda_call {
	__u16 fn;        /* enum cuda_fn */
	__u8 what;       /* enum cuda_what */
	__u8 a, b, out;  /* arguments; see enum cuda_what */
	__u8 stream;     /* 1: `a` is a stream, 2: `b` is; 3: `a` is a CUlaunchConfig* that holds it */
	__u8 per_thread; /* _ptsz, _ptds: stream 0 is the thread's own default stream */
	__u8 bytes;      /* argument; times the argument `times` (0: none), times `unit` (0: 1) */
	__u8 times, unit;
	__u8 copy; /* enum cuda_copy: bytes and direction stand in the struct at argument 1 */
	__u8 reserved[2];
};

struct cuda_in_flight { /* a thread's call, in the map cuda_in_flight by tid; what 0: it is in none */
	__u64 begin_ns, generation, a, b, out, bytes;
	__u64 sp, return_address; /* at entry: where no return probe may be used, an untouched word at sp says "still
				     in" */
	__u32 tgid;
	__u16 fn;
	__u8 what;
	__u8 no_returns;
};
_Static_assert(sizeof(struct cuda_in_flight) == 72, "cuda_in_flight");

struct cuda_counts_value { /* of the map cuda_counts, by tgid */
	__u64 generation, launches, copies, copy_bytes, sets;
};

struct cuda_sync { /* begin, and with result and begin_ns the end */
	struct wire_hdr hdr;
	__u64 handle; /* stream or event; 0 for a context */
	__u64 begin_ns;
	__s32 result; /* CUresult */
	__u32 sync;   /* enum sync_kind */
	__u64 bytes;  /* of a copy; from here on absent from recordings of version 1 */
	__u32 fn;     /* enum cuda_fn */
	__u32 reserved;
};
_Static_assert(sizeof(struct cuda_sync) == 64, "cuda_sync");
#define CUDA_SYNC_SIZE_1 48

struct cuda_event_use { /* record: event on stream; wait: stream for event; query: event or stream, and its result */
	struct wire_hdr hdr;
	__u64 event, stream;
	__s32 result;
	__u32 fn; /* enum cuda_fn; 0 in recordings of version 1 */
};
_Static_assert(sizeof(struct cuda_event_use) == 48, "cuda_event_use");

struct cuda_span {
	struct wire_hdr hdr;
	__u64 begin_ns, bytes;
	__s32 result; /* CUresult; CALL_OPEN: CUDA_RESULT_UNKNOWN */
	__u32 fn;     /* enum cuda_fn */
};
_Static_assert(sizeof(struct cuda_span) == 48, "cuda_span");

struct cuda_elapsed {
	struct wire_hdr hdr;
	__u64 start, end; /* CUDA events */
	__s32 result;
	__u32 ms; /* the float's bits; of result 0 only */
};
_Static_assert(sizeof(struct cuda_elapsed) == 48, "cuda_elapsed");

struct cuda_capture { /* words that the kind lacks are 0: see capture_kind in event.h */
	struct wire_hdr hdr;
	__u64 begin_ns; /* of the call */
	__u64 stream, graph, exec, parent;
	__s32 result; /* CUresult; CUDA_RESULT_UNKNOWN: emitted at its entry */
	__u16 fn;
	__u8 capture; /* enum capture_kind */
	__u8 reserved;
};
_Static_assert(sizeof(struct cuda_capture) == 72, "cuda_capture");

struct cuda_launch {
	struct wire_hdr hdr;
	__u64 stream, bytes;
	__u32 fn, reserved;
};
_Static_assert(sizeof(struct cuda_launch) == 48, "cuda_launch");

struct cuda_counts { /* since the process was first seen; exact, whatever the bulk ring lost */
	struct wire_hdr hdr;
	__u64 launches, copies, copy_bytes, sets;
};
_Static_assert(sizeof(struct cuda_counts) == 56, "cuda_counts");

#endif
