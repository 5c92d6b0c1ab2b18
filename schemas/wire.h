/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * wire.h - the header that starts every record, from a BPF ring buffer, from the collector itself (a "collector
 * record") or from a recording: one stream, one header. Records are 8-byte aligned, never packed; integers are fixed
 * width and little endian; padding is explicit, zeroed and called `reserved`. Fields are only appended: a
 * reader takes longer records and rejects shorter ones by `size`. Numbers are never reused (CHANGES.md).
 */
#ifndef RANKTRACE_WIRE_H
#define RANKTRACE_WIRE_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define WIRE_COMM_LEN 16   /* TASK_COMM_LEN: thread name with its zero byte */
#define WIRE_LIBS_MAX 1024 /* numbers of libraries: a file has one for each tracer and probe group */
#define WIRE_SIZE_MAX 8192 /* no record is longer; records with text are cut to fit */

/* struct wire_hdr.tracer: who wrote the record. With `kind` it names its layout (user/record.h has the table). */
enum wire_tracer {
	WIRE_COLLECTOR = 0, /* the collector and the samplers: schemas/collector.h */
	WIRE_LIFE = 1,      /* tracers/process/life.bpf.c: fork, exec, exit */
	WIRE_NCCL = 2,
	WIRE_SCHED = 3,
	WIRE_CUDA = 4,
	WIRE_VERBS = 6,
	WIRE_XID = 5,
	WIRE_TCP = 7,
	WIRE_TORCH = 8,
	WIRE_PYTHON = 9,
	WIRE_TORCH_GROUPS = 10,
	WIRE_OUTSIDE = 16, /* from here on: sources that are kept outside of this tree, by their own choice */
	WIRE_TRACER_MAX = 32,
};

/* Which ring a record went through, by what rests on it. A loss in the bulk class weakens no verdict. */
enum ring_class {
	RING_CRITICAL = 0, /* life of processes */
	RING_NORMAL = 1,   /* calls, operations, waits */
	RING_BULK = 2,     /* burst tier: launches, asynchronous copies */
	RING_CLASSES = 3,
};

struct wire_hdr {
	__u16 size;  /* bytes of the whole record, header included, a multiple of 8 */
	__u8 tracer; /* enum wire_tracer */
	__u8 kind;   /* enum of that tracer */
	__u32 tid;   /* host thread id, 0 if none */
	__u32 tgid;  /* host process id, 0 if none */
	__u32 cpu;
	__u64 ts_ns; /* CLOCK_MONOTONIC */
};
_Static_assert(sizeof(struct wire_hdr) == 24, "wire_hdr");

#endif
