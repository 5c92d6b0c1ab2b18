/* SPDX-License-Identifier: Apache-2.0
 *
 * collector.h - records the collector writes itself. Whatever the model uses and did not come out of a ring buffer
 * comes as one of these, through the same merge, the same recording and the same decode; that is what makes a
 * replay exact. Text stands last, zero-terminated, with its length.
 */
#ifndef RANKTRACE_COLLECTOR_H
#define RANKTRACE_COLLECTOR_H

#include "schemas/wire.h"

enum collector_record {
	RECORD_START = 1,        /* first record of a session */
	RECORD_TICK = 2,         /* detectors run on these and on nothing else */
	RECORD_PROC = 3,         /* a process of the job and its identity */
	RECORD_THREAD = 4,       /* a thread's name */
	RECORD_LIB = 5,          /* a file with probed symbols, in one process */
	RECORD_LOSS = 6,         /* records that found no room in a ring */
	RECORD_STOP = 7,         /* last record of a session */
	RECORD_ATTACH = 8,       /* the window in which probes were attached to one process */
	RECORD_CLOCK = 9,        /* the wall clock was set: only what people are shown changes */
	RECORD_COMM_SAMPLE = 10, /* a communicator, as read from the target's memory from outside */
	RECORD_TASK_AT = 11,     /* what a thread that is not running sits in */
	RECORD_TIER = 14,        /* a process is probed for more, or for less, than before */
	RECORD_BUDGET = 15,      /* what probes cost a process, and what became of them for that */
	RECORD_PRESSURE = 16,    /* what tasks waited for: the whole host, or one process' cgroup */
	RECORD_KERNEL_LOG = 17,  /* a line of the kernel log that is about GPUs, links, storage or memory */
	RECORD_GPU_DEVICE = 18,  /* a GPU, and what does not change of it */
	RECORD_GPU_SAMPLE = 19,  /* how busy it was since the last such record */
	RECORD_GPU_HEALTH = 20,  /* its error counters and links */
	RECORD_GPU_PROCS = 21,   /* the processes that compute on it */
	RECORD_GPU_STATE = 22,   /* it, or the driver, answers or does not */
	RECORD_GPU_USAGE = 48,   /* what a process has of its memory and time */
	RECORD_PORT = 27,
	RECORD_PORT_SAMPLE = 28,
	RECORD_PORT_USERS = 29, /* a port of an RDMA device: which; how it stands; who has it open */
	RECORD_QP = 36,         /* a queue pair, as the kernel lists it */
	RECORD_GIDS = 37,       /* addresses of a port of this host */
	RECORD_TCP = 33,
	RECORD_TCP_SAMPLE = 34, /* a TCP connection of a rank: between whom; how it stands, and its counters */
	RECORD_HOST = 26,       /* in merges of before RECORD_NODE: whose pid the number of a process is */
	RECORD_NODE = 38,       /* what follows is of that host, until the next of these: a stream of several hosts */
	RECORD_STACK = 12,      /* the stack of a thread, as read from outside; or that it could not be read */
	RECORD_WAIT = 41,       /* what a thread waits for, as read from outside */
	RECORD_PROXY =
		13, /* how far a communicator's transfers over the network are, as read from the target's memory */
	RECORD_COMM_SCAN =
		32, /* all of a process' memory was scanned for communicators, before the first sample of any */
	RECORD_SNAPSHOT = 24,      /* the model's state where a recording begins in the middle of a session */
	RECORD_KNOWN_PHASE = 44,   /* what an earlier session learnt of a job's pauses */
	RECORD_LIMITS = 45,        /* thresholds were changed while the session runs */
	RECORD_NODE_HEARD = 46,    /* the host of the last RECORD_NODE reports, or has fallen silent */
	RECORD_REPORTED = 47,      /* of a rank's calls, as its host reports them to a hub */
	RECORD_COMM_VANISHED = 39, /* a communicator that was sampled is not in the target's memory any more */
	RECORD_PARTIAL = 49,       /* of its jobs this host has ranks, too, that were not asked for */
};

enum record_start_by {
	START_BY_UNKNOWN = 0, /* recordings of before: an autopsy, if hang_floor_ns is below a second */
	START_BY_SESSION = 1,
	START_BY_AUTOPSY = 2, /* or a merge of autopsies */
};

struct record_start {
	struct wire_hdr hdr;
	__u64 realtime_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC at start */
	__u64 dstate_limit_ns;    /* d_state is reported past this */
	__u64 hang_floor_ns;      /* shortest lag that is a hang */
	__u64 busy_limit_ns;      /* the same for a laggard that burns CPU */
	__u16 version;            /* of this stream: WIRE_VERSION */
	__u8 by;                  /* enum record_start_by */
	__u8 reserved;
	__u32 host_len;
	char host[]; /* host name */
};
_Static_assert(sizeof(struct record_start) == 64, "record_start");
#define WIRE_VERSION 1

struct record_tick {
	struct wire_hdr hdr;
};

struct record_partial {
	struct wire_hdr hdr;
};

/* rank_source: who says `rank`. The order of trust is user/target/launch_env.c's, not the numbers'. */
enum rank_source {
	RANK_UNKNOWN = 0,
	RANK_ENV = 1,       /* RANK: torchrun, Ray, or the user */
	RANK_INHERITED = 2, /* a child's: its rank's */
	RANK_OMPI = 3,
	RANK_PMI = 4,
	RANK_PMIX = 5,
	RANK_SLURM = 6,
	RANK_JSM = 7,
	RANK_MVAPICH = 8,
	RANK_FLUX = 9,
};

enum rank_flag {
	RANK_LATE = 1,      /* the program set it itself, after its start */
	RANK_DISPUTED = 2,  /* a less trusted launcher's variables say another rank or size */
	RANK_AMBIGUOUS = 4, /* rank is -1: several processes with communicators say the same one */
};

struct record_proc {
	struct wire_hdr hdr; /* tgid: the process; ts: when seen */
	__u64 start_ns;      /* start time of the process: with tgid the key (pid reuse) */
	__u32 parent_tgid;
	__u32 ns_pid;     /* pid inside its own pid namespace */
	__s32 rank;       /* -1 unknown */
	__s32 local_rank; /* -1 unknown */
	__s32 world_size; /* -1 unknown */
	__u8 rank_source; /* enum rank_source */
	__u8 is_child;    /* 1: descendant of a rank (dataloader worker, checkpoint writer) */
	__u8 rank_flags;  /* of enum rank_flag */
	__u8 has_place; /* 1: behind the texts, at the next multiple of 8, a record_proc_place; 0 in older recordings */
	__u16 job_len;  /* bytes of text: job, name, container, pod, each with its zero byte */
	__u16 name_len;
	__u16 container_len;
	__u16 pod_len; /* 0 in recordings older than the field */
	char text[];
};
_Static_assert(sizeof(struct record_proc) == 64, "record_proc");

struct record_proc_place {  /* where a process lives */
	__u64 netns;        /* inode of its network namespace; 0 unknown */
	__u16 pod_name_len; /* bytes of text, in this order, each with its zero byte */
	__u16 namespace_len;
	__u16 cgroup_len; /* path; of a long one the end */
	__u16 boot_id_len;
	__u16 slurm_job_len;
	__u16 slurm_step_len;
	__u16 user[2]; /* real uid and 1, the low half first: 0 unknown, as in older recordings */
	char text[];
};
_Static_assert(sizeof(struct record_proc_place) == 24, "record_proc_place");

struct record_thread {
	struct wire_hdr hdr; /* tid, tgid */
	char name[WIRE_COMM_LEN];
};

struct record_lib {
	struct wire_hdr hdr; /* tgid */
	__u32 lib_id;        /* this session's number of the file; may become another file's */
	__u32 n_probes;
	__u8 build_id[20];
	__u8 build_id_len;
	__u8 for_tracer; /* enum wire_tracer */
	__u8 has_layout; /* struct offsets were learned and pass their checks */
	__u8 reserved;
	__u32 path_len;
	__u32 reserved2;
	char path[];
};
_Static_assert(sizeof(struct record_lib) == 64, "record_lib");

struct record_loss {
	struct wire_hdr hdr; /* cpu: where */
	__u64 lost;          /* records since the last such record */
	__u64 lost_total;
	__u32 ring; /* enum ring_class */
	__u32 reserved;
};

struct record_attach {
	struct wire_hdr hdr; /* ts: end of the window; tgid */
	__u64 begin_ns;
	__u32 n_probes;
	__u8 for_tracer;
	__u8 shared; /* 1: the kernel cannot filter by process, every process that maps the file pays */
	__u8 group;  /* enum record_probe_group (probing.h) */
	__u8 reserved;
};

struct record_clock {
	struct wire_hdr hdr;
	__u64 realtime_offset_ns; /* from now on; as in record_start */
};
_Static_assert(sizeof(struct record_clock) == 32, "record_clock");

struct record_limits {
	struct wire_hdr hdr;
	__u64 dstate_limit_ns, hang_floor_ns, busy_limit_ns; /* from now on; as in record_start */
};
_Static_assert(sizeof(struct record_limits) == 48, "record_limits");

struct record_node_heard { /* ts: of its newest report */
	struct wire_hdr hdr;
	__u32 silent; /* 1: nothing came since */
	__u32 reserved;
};
_Static_assert(sizeof(struct record_node_heard) == 32, "record_node_heard");

struct record_task_at {
	struct wire_hdr hdr; /* tid, tgid */
	__u16 wchan_len;     /* bytes of text: wait channel, system call, file, each with its zero byte */
	__u16 syscall_len;
	__u16 file_len;
	__u16 reserved;
	char text[];
};
_Static_assert(sizeof(struct record_task_at) == 32, "record_task_at");

struct record_snapshot {
	struct wire_hdr hdr; /* ts: as of when; tgid, tid: of what */
	__u16 what;          /* enum snapshot_what (schemas/snapshot.h) */
	__u16 n_texts;
	__u32 body_bytes; /* then that many, a multiple of 8; then the texts, each with its zero byte */
};
_Static_assert(sizeof(struct record_snapshot) == 32, "record_snapshot");

struct record_known_phase {
	struct wire_hdr hdr;
	__u32 number; /* from 1: of those that a session is given at its start */
	__u32 n;      /* pauses that ended by themselves */
	__u64 longest_ns;
	__u64 usual_ns;       /* median */
	__u64 interval_ns;    /* from begin to begin, median; 0 not known */
	__u64 interval_steps; /* the same in iterations */
	__u16 job_len;        /* bytes of text, each with its zero byte: the job's name, */
	__u16 site_len;       /* the call site, */
	__u16 wait_len;       /* the kernel wait */
	__u16 reserved;
	char text[];
};
_Static_assert(sizeof(struct record_known_phase) == 72, "record_known_phase");

struct record_stop {
	struct wire_hdr hdr;
	__u64 records; /* written before this one */
};

#include "schemas/outside.h"

#endif
