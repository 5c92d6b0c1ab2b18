/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * sched.h - the state of the targets' tasks, kept in a map by the kernel side and scanned by user space: a task
 * that is blocked for good never switches again, so only a scan can see it. Records are made by the scan, but for
 * intervals off the CPU worth drawing.
 */
#ifndef RANKTRACE_SCHED_H
#define RANKTRACE_SCHED_H

#include "schemas/wire.h"
#include "tracers/sched/wire/storage.h"

enum sched_kind {
	SCHED_TASK = 1,
	SCHED_OFF = 2,
	SCHED_BLOCKED = 3,
	SCHED_BLOCKED_END = 4,
	SCHED_THROTTLE = 5,
	SCHED_STORAGE = 6,
	SCHED_STORAGE_WAIT = 7
};

enum sched_state { /* as enum task_state of event.h */
		   SCHED_UNKNOWN = 0,
		   SCHED_ON_CPU = 1,
		   SCHED_RUNNABLE = 2,
		   SCHED_SLEEP = 3,
		   SCHED_DISK = 4,
		   SCHED_STOPPED = 5,
		   SCHED_DEAD = 6,
};

#define SCHED_FRAMES 16

#define STORAGE_CALLS_MAX 512  /* numbers of system calls */
#define STORAGE_BY_PATH 0x100u /* the call names its file by a path, not by a descriptor */
#define STORAGE_SUMS_MAX 4096  /* of all processes */

struct storage_key {
	__u32 tgid, at; /* STORAGE_AT() */
};

struct storage_call {       /* the call in which a task was blocked last, or is */
	__u64 id, end_ns;   /* what distinguishes it; end of its last wait */
	__u64 blocked_ns;   /* so far */
	__u64 next_id;      /* of the wait that goes on */
	__u32 at, waits_at; /* STORAGE_AT(); waits_at 0: it does not wait for storage now */
	char file[STORAGE_FILE_LEN];
};

struct sched_entry {        /* map value, key tid */
	__u64 since_ns;     /* in `state` */
	__u64 wake_ns;      /* became runnable, 0 not since it left the CPU */
	__u64 off_since_ns; /* left the CPU; first state after that in off_state */
	__u64 run_ns, wait_ns, sleep_ns, disk_ns;
	__u32 tgid;
	__u8 state, off_state;
	__u8 n_frames; /* of the user stack taken when the last D wait began */
	__u8 reserved;
	__u64 frames[SCHED_FRAMES];
	__u64 preempted;            /* times it left the CPU while it could have run */
	__u64 stopped_ns;           /* part of sleep_ns */
	__u64 behind_ns;            /* longest wait for a CPU recently: fades with every one that follows */
	char behind[WIRE_COMM_LEN]; /* who ran there at its end; "" an idle CPU, as under a quota */
	struct storage_call call;
};

struct sched_sample { /* one thread, at one moment; tier watch reads these instead of following every switch */
	__u32 tid, tgid;
	__u64 run_ns, wait_ns; /* on a CPU, waiting for one, since it began */
	__u64 switches;        /* from a CPU, of either kind */
	__u32 state;           /* enum sched_state */
	__u32 waits_at;        /* asleep in a call on a file, STORAGE_AT(); 0 it is not */
};
_Static_assert(sizeof(struct sched_sample) == 40, "sched_sample");

struct sched_task {
	struct wire_hdr hdr;
	__u64 since_ns, run_ns, wait_ns, sleep_ns, disk_ns;
	__u64 io_bytes; /* of the process; 0 not sampled */
	__u32 state;
	__u32 frozen;                /* stopped by its cgroup's freezer; 0 in old recordings */
	__u64 preempted, stopped_ns; /* from here on: since version 2 */
	char behind[WIRE_COMM_LEN];
};
#define SCHED_TASK_V1_BYTES 80
_Static_assert(sizeof(struct sched_task) == 112, "sched_task");

struct sched_off { /* hdr.ts: back on a CPU */
	struct wire_hdr hdr;
	__u64 begin_ns;
	__u64 runq_ns; /* of it: runnable, waiting for a CPU */
	__u32 state;   /* what it waited in */
	__u32 reserved;
};
_Static_assert(sizeof(struct sched_off) == 48, "sched_off");

struct sched_storage { /* hdr.tgid; text: the mount, with its zero byte */
	struct wire_hdr hdr;
	struct storage_sum body;
	__u16 mount_len;
	__u16 reserved[3];
	char text[];
};
_Static_assert(sizeof(struct sched_storage) == 144, "sched_storage");

struct sched_storage_wait { /* in place of a sched_off, which it begins as */
	struct sched_off off;
	__u32 at; /* STORAGE_AT() */
	__u32 reserved;
	char file[STORAGE_FILE_LEN];
};
_Static_assert(sizeof(struct sched_storage_wait) == 96, "sched_storage_wait");

struct sched_blocked { /* text: kernel stack, user stack, wchan, system call, file, mount; each with its zero byte */
	struct wire_hdr hdr;
	__u64 begin_ns;
	__u16 len[5];
	__u16 mmap_lock_held;
	__u16 mount_len; /* 0: not in old recordings */
	__u16 asleep;    /* in no D state, but in a call on a file: FUSE's and Lustre's clients; 0 in old ones */
	char text[];
};
_Static_assert(sizeof(struct sched_blocked) == 48, "sched_blocked");

struct sched_blocked_end {
	struct wire_hdr hdr;
	__u64 begin_ns;
};

#endif
