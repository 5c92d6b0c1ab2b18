/* SPDX-License-Identifier: Apache-2.0
 *
 * facts.h - records the collector writes itself. Whatever the model uses and did not come out of a ring buffer
 * comes as one of these, through the same merge, the same recording and the same decode; that is what makes a
 * replay exact. Text stands last, zero-terminated, with its length.
 */
#ifndef RANKTRACE_FACTS_H
#define RANKTRACE_FACTS_H

#include "wire.h"

enum fact_kind {
	FACT_START = 1,   /* first record of a session */
	FACT_TICK = 2,    /* detectors run on these and on nothing else */
	FACT_PROC = 3,    /* a process of the job and its identity */
	FACT_THREAD = 4,  /* a thread's name */
	FACT_LIB = 5,     /* a file with probed symbols, in one process */
	FACT_LOSS = 6,    /* records that found no room in a ring */
	FACT_STOP = 7,    /* last record of a session */
	FACT_ATTACH = 8,  /* the window in which probes were attached to one process */
	FACT_CLOCK = 9,   /* the wall clock was set: only what people are shown changes */
	FACT_COMM_SAMPLE = 10, /* a communicator, as read from the target's memory from outside */
	FACT_TASK_AT = 11, /* what a thread that is not running sits in */
};

struct fact_start {
	struct wire_hdr hdr;
	__u64 realtime_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC at start */
	__u64 dstate_limit_ns;    /* d_state is reported past this */
	__u64 hang_floor_ns;      /* shortest lag that is a hang */
	__u64 busy_limit_ns;      /* the same for a laggard that burns CPU */
	__u32 version;            /* of this stream: WIRE_VERSION */
	__u32 host_len;
	char host[];              /* host name */
};
_Static_assert(sizeof(struct fact_start) == 64, "fact_start");
#define WIRE_VERSION 1

struct fact_tick {
	struct wire_hdr hdr;
};

/* rank_source: who says `rank`. The order of trust is user/target/launch_env.c's, not the numbers'. */
enum rank_source {
	RANK_UNKNOWN = 0,
	RANK_ENV = 1,       /* RANK: torchrun, Ray, or the user */
	RANK_INHERITED = 2, /* a child's: its rank's */
	RANK_OMPI = 3, RANK_PMI = 4, RANK_PMIX = 5, RANK_SLURM = 6, RANK_JSM = 7, RANK_MVAPICH = 8, RANK_FLUX = 9,
};

enum rank_flag {
	RANK_LATE = 1,      /* the program set it itself, after its start */
	RANK_DISPUTED = 2,  /* a less trusted launcher's variables say another rank or size */
	RANK_AMBIGUOUS = 4, /* rank is -1: several processes with communicators say the same one */
};

struct fact_proc {
	struct wire_hdr hdr;   /* tgid: the process; ts: when seen */
	__u64 start_ns;        /* start time of the process: with tgid the key (pid reuse) */
	__u32 parent_tgid;
	__u32 ns_pid;          /* pid inside its own pid namespace */
	__s32 rank;            /* -1 unknown */
	__s32 local_rank;      /* -1 unknown */
	__s32 world_size;      /* -1 unknown */
	__u8 rank_source;      /* enum rank_source */
	__u8 is_child;         /* 1: descendant of a rank (dataloader worker, checkpoint writer) */
	__u8 rank_flags;       /* of enum rank_flag */
	__u8 reserved;
	__u16 job_len;         /* bytes of text: job, name, container, pod, each with its zero byte */
	__u16 name_len;
	__u16 container_len;
	__u16 pod_len;         /* 0 in recordings older than the field */
	char text[];
};
_Static_assert(sizeof(struct fact_proc) == 64, "fact_proc");

struct fact_thread {
	struct wire_hdr hdr;   /* tid, tgid */
	char name[WIRE_COMM_LEN];
};

struct fact_lib {
	struct wire_hdr hdr;   /* tgid */
	__u32 lib_id;          /* this session's number of the file (by build-id) */
	__u32 n_probes;
	__u8 build_id[20];
	__u8 build_id_len;
	__u8 for_tracer;       /* enum wire_tracer */
	__u8 has_layout;       /* struct offsets were learned and pass their checks */
	__u8 reserved;
	__u32 path_len;
	__u32 reserved2;
	char path[];
};
_Static_assert(sizeof(struct fact_lib) == 64, "fact_lib");

struct fact_loss {
	struct wire_hdr hdr;   /* cpu: where */
	__u64 lost;            /* records since the last such fact */
	__u64 lost_total;
	__u32 ring;            /* enum ring_class */
	__u32 reserved;
};

struct fact_attach {
	struct wire_hdr hdr;   /* ts: end of the window; tgid */
	__u64 begin_ns;
	__u32 n_probes;
	__u8 for_tracer;
	__u8 shared;           /* 1: the kernel cannot filter by process, every process that maps the file pays */
	__u8 reserved[2];
};

struct fact_clock {
	struct wire_hdr hdr;
	__u64 realtime_offset_ns; /* from now on; as in fact_start */
};
_Static_assert(sizeof(struct fact_clock) == 32, "fact_clock");

/* Which of a sample's fields were there: a version of NCCL may lack some. */
enum comm_sample_known { COMM_SAMPLE_ASYNC_RESULT = 1, COMM_SAMPLE_INIT_STATE = 2, COMM_SAMPLE_ABORT = 4 };
#define COMM_SAMPLE_COUNTERS 8

struct fact_comm_sample { /* ts: behind the read: nothing that was called later is counted */
	struct wire_hdr hdr;   /* tgid */
	__u64 comm;            /* address of the ncclComm */
	__u64 hash;
	__s32 rank, nranks;
	__s32 device;          /* -1 unknown */
	__u32 n_counters;      /* 0: NCCL keeps none that move */
	__u64 counters[COMM_SAMPLE_COUNTERS]; /* by NCCL function, Broadcast first */
	__s32 async_result, init_state; /* ncclResult_t */
	__u32 abort;           /* the word abortFlag points at */
	__u8 known;            /* of enum comm_sample_known */
	__u8 reserved[3];
};
_Static_assert(sizeof(struct fact_comm_sample) == 136, "fact_comm_sample");

struct fact_task_at {
	struct wire_hdr hdr;   /* tid, tgid */
	__u16 wchan_len;       /* bytes of text: wait channel, system call, file, each with its zero byte */
	__u16 syscall_len;
	__u16 file_len;
	__u16 reserved;
	char text[];
};
_Static_assert(sizeof(struct fact_task_at) == 32, "fact_task_at");

struct fact_stop {
	struct wire_hdr hdr;
	__u64 records;         /* written before this one */
};

#endif
