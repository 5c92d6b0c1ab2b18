/* SPDX-License-Identifier: Apache-2.0
 *
 * event.h - the one normalised event. Decoders make it from wire records; the model and the sinks see nothing
 * else. Times are ns of CLOCK_MONOTONIC. Strings are interned by the decoder and live until the next tick is over; for
 * longer where the model points to them (model_hold_texts()). Others copy what they keep.
 */
#ifndef RANKTRACE_EVENT_H
#define RANKTRACE_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event_outside.h"
#include "known_phase.h"
#include "event_port.h"
#include "event_proc.h"
#include "event_qp.h"
#include "event_tcp.h"
#include "probe_group.h"
#include "tracers/gpu/wire/gpu.h"
#include "tracers/nccl/wire/comm.h"
#include "tracers/nccl/wire/proxy.h"
#include "tracers/nccl/wire/redop.h"
#include "tracers/nccl/wire/reported.h"
#include "tracers/sched/wire/pressure.h"
#include "tracers/sched/wire/storage.h"
#include "tracers/sched/wire/throttle.h"
#include "tracers/torch/wire/group.h"
#include "tracers/torch/wire/torch.h"
#include "tracers/python/wire/python.h"

enum event_kind {
	EV_NONE,
	EV_START, /* start */
	EV_STOP,
	EV_TICK,       /* detectors run */
	EV_PROC,       /* proc */
	EV_EXEC,       /* the process became another program: identity comes again as EV_PROC */
	EV_FORK,       /* fork: a process or a thread (child_tgid == tgid) */
	EV_EXIT,       /* exit: of a thread; of the process when `last` */
	EV_THREAD,     /* name */
	EV_LIB,        /* lib */
	EV_ATTACH,     /* span: probes being attached to the process, ts_ns its end */
	EV_LOSS,       /* loss */
	EV_COMM_INIT,  /* comm_init: a creation call begins */
	EV_COMM_READY, /* comm_init: it returned; addr is now known */
	EV_COMM_SEEN,  /* comm_seen: identity and counters as read from the target's memory */
	EV_COMM_GONE,  /* comm_gone: abort, destroy, finalize */
	EV_OP,         /* op: a collective, Send or Recv was called */
	EV_GROUP_START,
	EV_GROUP_END,
	EV_SYNC_BEGIN,       /* sync: the host begins to wait for the GPU */
	EV_SYNC_END,         /* sync: it returned; result 0 = all waited-for work is done */
	EV_CUDA_EVENT,       /* cuda_event: a CUDA event was recorded on a stream */
	EV_CUDA_EVENT_WAIT,  /* cuda_event: a stream was made to wait for an event */
	EV_CUDA_EVENT_QUERY, /* cuda_event: cuEventQuery returned; result 0 done, CUDA_ERROR_NOT_READY not yet */
	EV_TASK,             /* task: totals and state of one thread, from a scan */
	EV_TASK_OFF,         /* off: one interval off the CPU, over; ts_ns is its end */
	EV_BLOCKED,          /* blocked: in D state, or in storage, past the limit, with evidence */
	EV_BLOCKED_END,      /* blocked: that wait is over (text fields NULL) */
	EV_CALL,       /* call: a driver call worth a record returned (allocation, module load, graph instantiation) */
	EV_CALL_OPEN,  /* call: the thread is still in it, long since; ends with the thread's next event */
	EV_CUDA_ERROR, /* cuda_error: a driver call returned an error (never CUDA_NOT_READY) */
	EV_ELAPSED,    /* elapsed: the framework asked how long the GPU took between two CUDA events */
	EV_STREAM_QUERY, /* cuda_event: cuStreamQuery returned; handle 0, stream, result as in EV_CUDA_EVENT_QUERY */
	EV_CAPTURE,  /* capture: graph capture, instantiation, launch, destruction; only calls that succeeded, but that
		      * launches and destructions are reported as they begin */
	EV_THROTTLE, /* throttle: the process' cgroup and its CPU quota, cumulative */
	EV_STORAGE,  /* storage: how long the process was blocked on a file system, cumulative */
	EV_SPAN,     /* generic: any tracer's slice on the thread */
	EV_INSTANT,  /* generic */
	EV_COUNTER,  /* generic */
	EV_CLOCK,    /* clock: the wall clock was set */
	EV_LIMITS,   /* start: thresholds, and only these, as they are from now on */
	EV_COMM_SAMPLE, /* comm_sample: a communicator as read from outside: no call, and no sign of life */
	EV_COMM_SCAN,   /* no data: the process was scanned for communicators */
	EV_TASK_AT,     /* task_at: what a thread that is not running sits in */
	EV_TIER,        /* tier: a process is probed for more, or for less, than before */
	EV_BUDGET,      /* budget: what its probes cost a process, and what became of them for that */
	EV_GPU_DEVICE,  /* gpu_device, gpu_name, gpu_uuid: "" unknown */
	EV_GPU_SAMPLE,  /* gpu_sample: how busy a GPU was */
	EV_GPU_HEALTH,  /* gpu_health: its error counters */
	EV_GPU_PROCS,   /* gpu_procs: who computes on it */
	EV_GPU_STATE,   /* gpu_state: it answers, or not */
	EV_PORT,
	EV_PORT_SAMPLE,
	EV_PORT_USERS, /* port.id, port.sample, port.users: a port of an RDMA device */
	EV_QP,
	EV_QP_TOTALS,
	EV_QP_ERROR,
	EV_QP_ASYNC,
	EV_QP_BURST, /* qp.now, .totals, .error, .async, .burst: an RDMA queue pair */
	EV_GIDS,     /* qp.own: addresses of a port of this host */
	EV_TCP,
	EV_TCP_SAMPLE,    /* tcp.id, tcp.sample: a TCP connection of the process */
	EV_KERNEL_LOG,    /* kernel_log: a line worth showing, and no XID */
	EV_XID,           /* kernel_log: the driver reported an error of a GPU or switch */
	EV_PRESSURE,      /* pressure */
	EV_NODE,          /* host: which host `node` is, where a stream holds several hosts' records */
	EV_WAIT,          /* wait: what a thread waits for, as read from outside */
	EV_STACK,         /* stack: of one thread, as read from outside; or of a process: that it could not be read */
	EV_PROXY,         /* proxy: progress of a communicator's network transfers, read from outside */
	EV_SNAPSHOT,      /* snapshot: the model's state, where a stream begins in mid-session (schemas/snapshot.h) */
	EV_COMM_VANISHED, /* comm_seen: what was sampled is not in the process' memory any more */
	EV_NODE_HEARD,    /* heard: of the event's node; only where hosts report from time to time */
	EV_REPORTED,      /* reported: of a rank's calls, as its host says */
	EV_KNOWN_PHASE,   /* known_phase: what an earlier session learnt of a job's pauses */
	EV_TORCH,         /* torch: a mark that PyTorch passed */
	EV_PYTHON_GC,     /* python_gc: Python collected garbage, or does */
	EV_TORCH_GROUP,   /* torch_group: the thread calls NCCL next, for this process group */
	EV_PARTIAL,       /* of its jobs this host has ranks, too, that were not asked for */
	EV_GPU_USAGE,     /* gpu_usage: what a process of EV_GPU_PROCS has of it */
};

/* NCCL's operations; names in op_kind_name(). The first five are those NCCL's own seqNumber[] counts, in its order. */
enum op_kind {
	OP_BROADCAST,
	OP_REDUCE,
	OP_ALLGATHER,
	OP_REDUCESCATTER,
	OP_ALLREDUCE,
	OP_ALLTOALL,
	OP_GATHER,
	OP_SCATTER,
	OP_SEND,
	OP_RECV,
	OP_KIND_MAX,
};

enum comm_init_kind {
	COMM_INIT_RANK,
	COMM_INIT_CONFIG,
	COMM_INIT_SCALABLE,
	COMM_INIT_ALL,
	COMM_INIT_SPLIT,
	COMM_INIT_SHRINK,
	COMM_INIT_GROW,
	COMM_INIT_KIND_MAX,
};

enum comm_gone_kind { COMM_GONE_FINALIZE, COMM_GONE_DESTROY, COMM_GONE_ABORT, COMM_GONE_REVOKE };

/* SYNC_COPY: a copy that returns when it is done (cuMemcpyDtoH_v2 and its like): a wait for its stream. */
enum sync_kind { SYNC_STREAM, SYNC_EVENT, SYNC_CONTEXT, SYNC_COPY };

enum call_class { CALL_ALLOC, CALL_FREE, CALL_MODULE, CALL_GRAPH, CALL_OTHER, CALL_CLASS_MAX };

/* BEGIN, END: stream and (END) graph; 0: the capture was given up, or what it made is not known. INSTANTIATE: graph,
 * exec. CLONE: graph (new), parent. LAUNCH: exec, stream. DESTROY: graph or exec, the other 0. UPDATE: exec takes over
 * graph's work. */
enum capture_kind {
	CAPTURE_BEGIN,
	CAPTURE_END,
	CAPTURE_INSTANTIATE,
	CAPTURE_CLONE,
	CAPTURE_LAUNCH,
	CAPTURE_UPDATE,
	CAPTURE_DESTROY,
};

/* What rests on the records of a ring, by its number on the wire. */
enum loss_class { LOSS_CRITICAL, LOSS_NORMAL, LOSS_BULK };
enum task_state { TASK_UNKNOWN, TASK_ON_CPU, TASK_RUNNABLE, TASK_SLEEP, TASK_DISK /* D */, TASK_STOPPED, TASK_DEAD };

#define OP_KINDS_COUNTED 5 /* OP_BROADCAST .. OP_ALLREDUCE */
#define CUDA_NOT_READY 600 /* CUDA_ERROR_NOT_READY in cuda.h */

struct event_arg { /* argument of a generic event; text NULL: a number */
	const char *name;
	const char *text;
	int64_t number;
};
#define EVENT_ARGS_MAX 4

struct event {
	enum event_kind kind;
	uint32_t tgid, tid, cpu, node; /* node: number of the host in the stream; 0 the session's own */
	uint64_t ts_ns;
	union {
		struct {
			uint64_t realtime_offset_ns, dstate_limit_ns, hang_floor_ns, busy_limit_ns;
			const char *host;
			bool by_autopsy, by_session; /* neither: not known */
		} start;
		struct event_proc proc;
		struct {
			uint32_t child_tgid, child_tid;
		} fork;
		struct {
			bool last;
			int code;
			int signal;
			uint64_t run_ns; /* on a CPU, of this thread in its life; 0 not known */
		} exit;
		struct {
			const char *name;
		} thread;
		struct {
			uint32_t lib_id, n_probes;
			const char *path, *build_id; /* hex */
			uint8_t for_tracer;
			bool has_layout;
		} lib;
		struct {
			uint64_t begin_ns;
			uint32_t n_probes;
			uint8_t for_tracer, group;
			bool shared;
		} attach;
		struct {
			uint64_t realtime_offset_ns;
		} clock;
		struct {
			uint64_t lost, lost_total;
			enum loss_class class;
		} loss;
		struct {
			enum comm_init_kind kind;
			uint64_t addr;        /* ncclComm*, 0 until EV_COMM_READY */
			uint64_t parent_addr; /* Split, Shrink, Grow */
			uint64_t id_hash;     /* hash of the unique id as NCCL makes it, 0 none */
			int rank, nranks;     /* -1 not known by the call */
			int color, key;
			int result;    /* EV_COMM_READY */
			bool returned; /* the same: its return was seen, not only the thread's next call */
		} comm_init;
		struct {
			uint64_t addr, hash;
			int rank, nranks, device;
			uint64_t counters_sum; /* sum of NCCL's seqNumber[]: collectives launched before now */
			bool counters_valid;
		} comm_seen;
		struct {
			uint64_t addr;
			enum comm_gone_kind kind;
		} comm_gone;
		struct {
			uint64_t addr;   /* ncclComm* */
			uint64_t stream; /* CUstream */
			uint64_t count;
			uint64_t counters_sum; /* as in comm_seen, read at this call */
			bool counters_valid;
			enum op_kind op;
			int dtype, redop; /* ncclDataType_t; ncclRedOp_t or REDOP_OWN; -1 none */
			int root;         /* -1 none */
			int peer;         /* Send, Recv: rank in the communicator; -1 none */
			int group_depth;  /* of this thread, as counted in the kernel; 0 none */
		} op;
		struct {
			int depth_before;
		} group; /* the thread's open GroupStarts, as the program counts; END at 0: opened before the attach */
		struct {
			enum sync_kind kind;
			uint64_t handle; /* stream or event */
			int result;
			uint64_t begin_ns, bytes;
		} sync;
		struct {
			enum call_class class;
			const char *name;         /* "cuMemAlloc" */
			uint64_t begin_ns, bytes; /* bytes 0 where the call has none */
			int result;               /* EV_CALL */
		} call;
		struct {
			const char *call, *error;
			int result;
		} cuda_error; /* "cuStreamSynchronize", "CUDA_ERROR_ILLEGAL_ADDRESS" */
		struct {
			uint64_t start, end; /* CUDA events */
			uint64_t gpu_ns;
		} elapsed;
		struct {
			enum capture_kind kind;
			uint64_t stream, graph, exec, parent;
		} capture;
		struct cpu_throttle throttle;
		struct comm_sample comm_sample; /* right as of now: the read was before */
		struct reported_call reported;
		struct {
			struct gpu_device gpu_device;
			const char *gpu_name, *gpu_uuid;
		};
		struct gpu_sample gpu_sample;
		struct gpu_health gpu_health;
		struct gpu_procs gpu_procs;
		struct gpu_usage gpu_usage;
		struct gpu_state gpu_state;
		union port_event port;
		struct qp_event qp;
		union tcp_event tcp;
		struct {
			uint32_t xid, pid;        /* xid 0: of no such line; pid 0: not named */
			uint64_t pci;             /* GPU_PCI_NONE: not named */
			bool of_switch;           /* an NVSwitch's */
			const char *class, *text; /* "hung_task" */
		} kernel_log;
		struct pressure_totals pressure;
		struct {
			int tier, before;
			uint64_t incident;
		} tier; /* 0 no probes, 1 calls and waits, 2 all; incident 0: none */
		struct budget_change budget;
		struct {
			const char *wchan, *syscall, *file;
		} task_at; /* "" none or unknown */
		struct {
			const char *name;
			int64_t clock_offset_ns; /* what was added to its clock to get the stream's */
			uint64_t clock_error_ns; /* UINT64_MAX unknown */
		} host;
		struct {
			bool silent;
		} heard;
		struct stack_event stack;
		struct waits_for wait;
		struct known_phase_event known_phase;
		struct torch_mark torch;
		struct python_gc python_gc;
		struct torch_group torch_group;
		struct proxy_part proxy; /* flags PROXY_SAMPLE: no part, but a sample of n parts begins */
		struct {
			int what;         /* enum snapshot_what */
			const void *body; /* struct snapshot_*, as long as the record or the call */
			size_t bytes;
			const char *text[8]; /* SNAPSHOT_TEXTS; "" where there is none */
		} snapshot;
		struct {
			uint64_t handle, stream;
			int result;
		} cuda_event;
		struct {
			enum task_state state;
			uint64_t since_ns; /* in this state */
			uint64_t run_ns;   /* total on a CPU since seen */
			uint64_t wait_ns;  /* total runnable, waiting for a CPU */
			uint64_t sleep_ns, disk_ns;
			uint64_t io_bytes;        /* read and written by the whole process, 0 where not sampled */
			uint64_t preempted;       /* times it lost the CPU while it could have run */
			const char *preempted_by; /* name of the task it waited behind longest lately; "" unknown, or
						     an idle CPU: throttled */
			uint64_t stopped_ns;      /* total stopped; part of sleep_ns */
			bool frozen;              /* stopped, by its cgroup's freezer */
		} task;
		struct {
			uint64_t begin_ns;
			enum task_state state;
			uint64_t runq_ns;
			uint32_t storage_at; /* STORAGE_AT(): blocked in a call on a file; 0 it was not */
			const char *file;    /* of that call; "" unknown */
		} off;
		struct {
			struct storage_sum sum;
			const char *file;  /* of its longest call; "" unknown */
			const char *mount; /* "/data (nfs4 filer:/export, 0:52)"; "" unknown */
		} storage;
		struct {
			uint64_t begin_ns;                     /* with tid the key of the wait */
			const char *kernel_stack, *user_stack; /* frames, newline-separated, innermost first; "" none */
			const char *wchan, *syscall, *file;    /* "" unknown */
			const char *mount;   /* "/data (nfs4 filer:/export, 0:52)", of that file; "" unknown */
			bool mmap_lock_held; /* a read that takes the target's mmap_lock timed out */
			bool asleep;         /* in no D state, but in a call on a file */
		} blocked;
		struct {
			const char *name, *track;
			uint64_t begin_ns; /* span */
			int64_t value;     /* counter */
			bool kept;         /* counter: the model keeps the newest of the process, for detectors */
			int n_args;
			struct event_arg args[EVENT_ARGS_MAX];
		} generic;
	};
};

/* A process of the stream: a pid says nothing without its host. On the session's own host the pid itself. */
static inline uint64_t proc_key(uint32_t node, uint32_t tgid)
{
	return (uint64_t)node << 32 | tgid;
}
static inline uint64_t event_proc(const struct event *e)
{
	return proc_key(e->node, e->tgid);
}

const char *op_kind_name(enum op_kind kind);               /* "AllReduce" */
const char *dtype_name(int dtype);                         /* "bf16"; NULL for none */
int dtype_bytes(int dtype);                                /* 0 for none */
const char *comm_init_kind_name(enum comm_init_kind kind); /* "InitRank" */
const char *task_state_name(enum task_state state);        /* "on_cpu" */
static inline bool op_kind_counted(enum op_kind kind)
{
	return kind <= OP_ALLREDUCE;
}
static inline bool op_kind_p2p(enum op_kind kind)
{
	return kind == OP_SEND || kind == OP_RECV;
}

#endif
