/* SPDX-License-Identifier: Apache-2.0
 *
 * outside.h - facts that only looks from outside have: stacks, and in a merge of several hosts' looks whose process is
 * whose. Part of facts.h.
 */
#ifndef RANKTRACE_OUTSIDE_H
#define RANKTRACE_OUTSIDE_H

#include "schemas/wire.h"

struct fact_host {
	struct wire_hdr hdr; /* tgid: the process' number in this stream */
	__u32 pid;           /* on that host */
	__u16 host_len;
	__u16 reserved;
	char host[];
};
_Static_assert(sizeof(struct fact_host) == 32, "fact_host");

struct fact_node {
	struct wire_hdr hdr;
	__u32 node; /* its number in this stream, from 0; what comes before the first of these is of 0 */
	__u16 host_len;
	__u16 reserved;
	__s64 clock_offset_ns; /* what was added to its clock to get the times of this stream */
	__u64 clock_error_ns;  /* ~0: its times and another host's do not compare */
	char host[];
};
_Static_assert(sizeof(struct fact_node) == 48, "fact_node");

enum stack_flag {
	STACK_FLAG_UNREAD = 1,  /* of the whole process (tid: its main thread); `end` says why. No frames */
	STACK_FLAG_SAMPLED = 2, /* it ran: the frames are those of one sample */
};

struct fact_stack {          /* ts: when it was read */
	struct wire_hdr hdr; /* tid, tgid */
	__u8 state;          /* as in /proc/PID/stat; 0 unknown */
	__u8 flags;          /* of enum stack_flag */
	__u16 wait_len;      /* bytes of text, each with its zero byte: what it waits for in the kernel, */
	__u16 file_len;      /* the file behind that, */
	__u16 kernel_len;    /* kernel stack, */
	__u16 frames_len;    /* native frames with the Python frames in the place of the interpreter's loop, */
	__u16 python_len;    /* innermost Python frame, "file:line function", */
	__u16 native_len;    /* the native frame that tells, "function (file)", */
	__u16 end_len; /* why the frames end where they do; "" they are whole. Frames are lines, innermost first */
	char text[];
};
_Static_assert(sizeof(struct fact_stack) == 40, "fact_stack");

#endif
