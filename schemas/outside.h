/* SPDX-License-Identifier: Apache-2.0
 *
 * outside.h - records that only samples from outside have: stacks, and in a merge of several hosts whose process is
 * whose. Part of collector.h.
 */
#ifndef RANKTRACE_OUTSIDE_H
#define RANKTRACE_OUTSIDE_H

#include "schemas/wire.h"

struct record_host {
	struct wire_hdr hdr; /* tgid: the process' number in this stream */
	__u32 pid;           /* on that host */
	__u16 host_len;
	__u16 reserved;
	char host[];
};
_Static_assert(sizeof(struct record_host) == 32, "record_host");

struct record_node {
	struct wire_hdr hdr;
	__u32 node; /* its number in this stream, from 0; what comes before the first of these is of 0 */
	__u16 host_len;
	__u16 reserved;
	__s64 clock_offset_ns; /* what was added to its clock to get the times of this stream */
	__u64 clock_error_ns;  /* ~0: its times and another host's do not compare */
	char host[];
};
_Static_assert(sizeof(struct record_node) == 48, "record_node");

enum stack_flag {
	STACK_FLAG_UNREAD = 1,  /* of the whole process (tid: its main thread); `end` says why. No frames */
	STACK_FLAG_SAMPLED = 2, /* it ran: the frames are those of one sample */
};

struct record_stack {        /* ts: when it was read */
	struct wire_hdr hdr; /* tid, tgid */
	__u8 state;          /* as in /proc/PID/stat; 0 unknown */
	__u8 flags;          /* of enum stack_flag */
	__u16 wait_len;      /* bytes of text, each with its zero byte: what it waits for in the kernel, */
	__u16 file_len;      /* the file behind that, */
	__u16 kernel_len;    /* kernel stack, */
	__u16 frames_len;    /* native frames with the Python frames in the place of the interpreter's loop, */
	__u16 python_len;    /* innermost Python frame, "file:line function", */
	__u16 native_len;    /* the native frame that says most, "function (file)", */
	__u16 end_len; /* why the frames end where they do; "" they are whole. Frames are lines, innermost first */
	char text[];
};
_Static_assert(sizeof(struct record_stack) == 40, "record_stack");

/* Numbers of record_wait.kind, .act and .flags; user/waits_for.h says what each means. */
enum wait_kind_number {
	WAIT_KIND_UNKNOWN = 0, /* it runs, or it cannot be read */
	WAIT_KIND_SOCKET = 1,
	WAIT_KIND_CHILD = 2,
	WAIT_KIND_THREAD = 3,
	WAIT_KIND_LOCK = 4,
	WAIT_KIND_CONDITION = 5,
	WAIT_KIND_TIMER = 6,
	WAIT_KIND_FILE = 7,
	WAIT_KIND_PIPE = 8,
	WAIT_KIND_EVENT = 9,
	WAIT_KIND_SIGNAL = 10,
};
enum wait_act_number {
	WAIT_ACT_READ = 0,
	WAIT_ACT_WRITE = 1,
	WAIT_ACT_OPEN = 2,
	WAIT_ACT_CONNECT = 3,
	WAIT_ACT_ACCEPT = 4,
	WAIT_ACT_FLUSH = 5,
	WAIT_ACT_END = 6,
	WAIT_ACT_OTHER = 7,
};
enum wait_flag_number {
	WAIT_FLAG_MOVES = 1,
	WAIT_FLAG_STANDS = 2,
	WAIT_FLAG_AGAIN = 4,
	WAIT_FLAG_OWN = 8,
	WAIT_FLAG_UNOPENED = 16,
	WAIT_FLAG_UNIX = 32,
	WAIT_FLAG_UDP = 64,
};

struct record_wait {         /* what a thread waits for */
	struct wire_hdr hdr; /* tid, tgid */
	__u64 read_ns;       /* when it was read: before ts */
	__u64 since_ns;      /* a socket's last byte came, a child began; 0 not known */
	__u64 length_ns;     /* of a timer; 0 not known */
	__u64 until_ns;      /* a timer's end; 0 not known */
	__u32 pid;           /* the process at the other end, the child; 0 */
	__u32 thread;        /* that holds the lock, or is to end; 0 */
	__u32 n;             /* it is the likeliest of so many */
	__u32 flags;         /* of enum wait_flag_number */
	__u8 kind, act;      /* of enum wait_kind_number, wait_act_number */
	__u16 what_len;      /* bytes of text, each with its zero byte: path or address, */
	__u16 who_len;       /* name of that process or thread, */
	__u16 activity_len;  /* what it does itself */
	char text[];
};
_Static_assert(sizeof(struct record_wait) == 80, "record_wait");

#endif
