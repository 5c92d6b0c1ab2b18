/* SPDX-License-Identifier: Apache-2.0
 *
 * model.h - the job as the events show it: ranks, communicators, operations, steps. Pure: no I/O, no clock, no
 * globals; time is the events' own. One way in (model_apply), read-only views out. Bounded: operations beyond
 * MODEL_OPS_KEPT per member, or beyond the process' share of what all may keep, are dropped, oldest first, after they
 * were handed out by model_next_ended(); the newest of a member always stays. Dead processes and communicators without
 * a living member are freed after a minute, at a tick (reap.c): keep no pointer to one from tick to tick.
 *
 * Sequence numbers: the five collectives NCCL counts share one sequence per communicator; AlltoAll, Gather and
 * Scatter have one each (NCCL runs them as Send/Recv and keeps no count); Send and Recv one per peer and direction.
 * A member met late starts from NCCL's own counters (base + own count); what NCCL does not count starts at 0 and
 * is marked `seq_from_attach`.
 */
#ifndef RANKTRACE_MODEL_H
#define RANKTRACE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event.h"
#include "job/jobs.h"
#include "job/parallel.h"
#include "model/node.h"
#include "model/outside.h"
#include "model/phases.h"
#include "model/steps.h"

#define MODEL_OPS_KEPT 4096
#define MODEL_MEMBERS_MAX 1024 /* communicators of one process, those that are over included; more are only counted */
#define COMM_WARMUP_OPS 5      /* and the iterations of a member are known; or so many: */
#define COMM_WARMUP_OPS_MAX 1000
#define COMM_WARMUP_OPS_SHARED 100 /* the same of processes of several ranks: not all have iterations */
#define COMM_WARMUP_NS 30000000000ull
#define COMM_CARE_NS 10000000000ull

struct task { /* one thread of a rank or of a rank's child */
	uint32_t tid, tgid;
	const char *name;
	struct task *next; /* of proc */
	struct proc *proc;
	enum task_state state;
	uint64_t since_ns;                                /* in `state` */
	uint64_t seen_ns;                                 /* of the last scan or record */
	uint64_t run_ns, wait_ns, sleep_ns, disk_ns;      /* totals of the last scan */
	uint64_t prev_run_ns, prev_seen_ns, prev_wait_ns; /* the scan before: shares of time = differences */
	uint64_t preempted, prev_preempted;
	const char *preempted_by; /* "" unknown */
	bool blocked, stalled;    /* past the limit, evidence below: in D state; asleep in a call on a file */
	uint64_t blocked_since_ns;
	const char *kernel_stack, *user_stack, *wchan, *syscall, *file, *mount;
	bool mmap_lock_held, frozen; /* frozen: stopped, by its cgroup */
	uint64_t stopped_ns;         /* total of the last scan; part of sleep_ns */
	uint64_t at_ns; /* wchan, syscall and file are of that time, of a thread that is not blocked; 0 never */
	struct task_stack stack;
	struct waits_for wait; /* of the newest sample; its `ns` 0 never */
};

/* Time of the rank's own GPU work between two CUDA events, as the framework measured it (cuEventElapsedTime): nothing
 * that waits for a peer lies between them, and no operation was called in between: its kernel would delay the others.
 * PyTorch's DDP asks for its forward pass every 100 iterations. */
struct gpu_span {
	uint64_t ts_ns, gpu_ns;
};
#define GPU_SPANS_KEPT 32

struct counter { /* a value that a source reports and has kept (event.h: generic.kept) */
	const char *name;
	int64_t value;
	uint64_t ts_ns;
	struct counter *next;
};

struct proc {
	/* First, in two lines of the cache, what walks over all processes look at: each detector takes one at each
	 * tick. */
	struct proc *next; /* of model */
	const void *ahead; /* a hint for proc_next() */
	bool is_child, dead;
	bool shared;     /* several ranks of one communicator are in it: no number is its own, see member_rank() */
	bool by_threads; /* shared, and its ranks were called for by several threads: each has a clock of its own */
	int rank;        /* global; -1 unknown. A child carries its rank's, of the three */
	struct member *members;   /* communicators of this process */
	const struct job_id *job; /* never NULL */
	struct op *last_op;       /* newest operation called, through prev_in_proc; NULL none kept */
	struct steps *steps;      /* iteration clock of its calls; where by_threads none: rank_clocks */
	struct task *tasks;
	uint64_t key; /* proc_key(): of all hosts' processes */
	struct node *node;
	struct call *calls; /* host waits in flight, one per thread at most */
	uint64_t n_ops;     /* all operations called so far */
	uint32_t tgid;      /* on its node */
	int world_size;     /* -1 unknown */
	bool comms_scanned; /* its memory was scanned, and every communicator in it was sampled */
	bool gc_visible;    /* its interpreter's collections of garbage are probed */
	bool has_phases;    /* its steps have phases, and are counted by them: model_step_done() */
	bool end_run_known;
	uint32_t n_tasks;      /* in `tasks` */
	struct proc *leader;   /* the rank's own process; self when it is that */
	uint64_t last_call_ns; /* newest sign of its host code: an operation, a wait or its end, a creation call */
	uint64_t reported_ns;  /* of another host, which sees its calls: it last said where they stand; 0 never */
	uint64_t attached_ns; /* its probes were attached by then, the last time: no call before is seen; 0 not known */
	uint64_t last_sync_ns;  /* newest end of a host wait for the GPU; 0: such waits are not seen */
	uint64_t sampled_ns;    /* its communicators, from outside, the last time; 0 never */
	uint32_t sample_rounds; /* how often */
	uint32_t shed;          /* groups of probes (enum probe_group) that were taken from it, a bit each */
	uint64_t probes_changed_ns, calls_shed_ns; /* some of them, PROBES_CALLS last went or came back; 0 never */
	uint64_t start_ns, first_ns;               /* first: appeared here */
	int exit_code, exit_signal;
	uint64_t exit_ns;
	uint64_t end_run_ns; /* CPU of threads that ended since the main one was scanned, after their own scan */
	uint32_t ns_pid, parent_tgid; /* on its node */
	int local_rank;               /* -1 unknown */
	uint64_t n_gpu_spans;
	const char *name, *container, *pod, *pod_name, *namespace, *slurm_job, *slurm_step; /* "" unknown */
	uint32_t n_members;
	uint64_t n_refused; /* operations and other words of communicators beyond MODEL_MEMBERS_MAX */
	struct stream *streams;
	struct cuda_event *cuda_events;
	struct rank_clock *rank_clocks;
	uint64_t io_bytes, prev_io_bytes;
	uint64_t io_seen_ns, prev_io_seen_ns; /* of io_bytes, prev_io_bytes; 0 never */
	uint64_t call_ns[CALL_CLASS_MAX];     /* total time of driver calls that are over */
	uint64_t ready_ns; /* total of all its threads and its children's without a CPU, as far as seen */
	int cuda_error;    /* last error a driver call returned; 0 none */
	const char *cuda_error_call, *cuda_error_name;
	uint64_t cuda_error_ns;
	uint64_t throttled_ns, throttle_seen_ns, prev_throttled_ns,
		prev_throttle_seen_ns;             /* cgroup: totals; 0 never seen */
	double quota_cores;                        /* of its cgroup; 0 none */
	struct gpu_span gpu_spans[GPU_SPANS_KEPT]; /* ring: number i at i % GPU_SPANS_KEPT */
	struct pressure pressure;                  /* of its cgroup */
	struct proc_outside outside;
	struct counter *counters;                  /* the newest of each name */
	struct storage *storage, *storage_of_rank; /* as it reports; of a rank's own process: with its children's */
	struct phase_totals phase_totals;
};

#define PROC_WALKED_BYTES 128

/* SEQ_GRAPH: collectives that ran in a graph launch (NCCL's counters leave these out). P2P: struct p2p_seq. */
enum { SEQ_COLL, SEQ_ALLTOALL, SEQ_GATHER, SEQ_SCATTER, SEQ_GRAPH, SEQ_SPACES };

struct comm {
	uint64_t hash; /* canonical key; 0: not known yet (then one comm per member) */
	int nranks;    /* -1 unknown */
	uint64_t first_ns;
	struct member **by_rank; /* [nranks], NULL where that rank is not seen on this node */
	int n_seen;
	struct member *members; /* through next_in_comm */
	struct comm *next;
	/* lag in seconds, past warm-up: how long the last member trails the first in entering an operation */
	double lag_p999_s;
	/* The same of all lags, also reported ones: what 2 % of its operations exceed; of sampled ones, too. */
	double lag_habit_s;
	double duration_p999_s;               /* of operations with a known end */
	uint64_t n_complete;                  /* operations that all seen members entered */
	uint64_t n_ended;                     /* operations seen to end on some member */
	uint64_t highest_seq[SEQ_SPACES];     /* highest entered + 1 */
	uint64_t n_called;                    /* operations, of all members */
	enum parallelism parallelism;         /* as of a tick */
	char process_group[TORCH_GROUP_TEXT]; /* as PyTorch or its user calls it; "" not known */
};

struct p2p_seq {             /* with one peer; index 0 Send, 1 Recv */
	uint64_t next[2];    /* called */
	uint64_t entered[2]; /* of them enqueued */
	/* Met late: a Recv of number n receives the peer's Send of number n + ahead, each as it is counted on its side.
	 * The least by which the peer was ahead when a Recv was over: a Send before it was counted, or one that was not
	 * received yet, makes it more. */
	int64_t ahead;
	bool ahead_known, passed[2]; /* passed: it went on past its next one, as its host reports */
};

/* One rank in one communicator. Large jobs have tens of thousands, and judging is going through them: what that reads
 * lies together in three lines of the cache, at the beginning (ahead.h). */
struct member {
	struct comm *comm;
	struct proc *proc;
	struct member *next_in_comm, *next_in_proc;
	const void *ahead_in_comm, *ahead_proc; /* hints for member_next_in_comm(): a member, and the process of one */
	const void *ahead_in_proc;              /* a hint for member_next_in_proc() */
	bool from_init, p2p_reported; /* creation was seen: sequences start at 0; its host reports those of P2P */
	bool gone;
	bool at_addr;   /* its address means it, not one that came later */
	bool seq_known; /* SEQ_COLL is absolute: met at its creation, or from NCCL's counters */
	bool blind;     /* operations that NCCL does not count were missed: their numbers cannot be compared any more */

	int rank;                         /* in the communicator; -1 unknown */
	int n_p2p;                        /* entries of p2p, by rank of the peer */
	uint64_t entered_seq[SEQ_SPACES]; /* next_seq less the operations of a group that is still open */
	uint64_t last_call_ns;
	struct op *first_open; /* oldest whose end is not known, NULL none */

	struct samples samples;
	struct proxies proxies;
	struct op *ops, *ops_tail, *asked; /* oldest to newest, through next; asked: member_op()'s last of SEQ_COLL */
	size_t n_ops;
	uint64_t addr; /* ncclComm* in that process */
	int device;
	uint64_t next_seq[SEQ_SPACES];
	uint64_t n_called[OP_KIND_MAX]; /* operations seen */
	uint64_t base_seq;              /* counter value when met; 0 if met at its creation */
	struct p2p_seq *p2p;
	size_t n_pending;    /* operations called in a group that is still open */
	uint64_t checked_ns; /* NCCL's counters last agreed with, or corrected, next_seq */
};
#define MEMBER_COMPARED_BYTES 128 /* up to `samples` */
#define MEMBER_WALKED_BYTES 192   /* with these */

struct op {
	struct member *member;
	uint64_t id; /* 1.. unique in the session, in order of arrival */
	enum op_kind kind;
	int dtype, redop, root, peer; /* -1 none; peer is a rank of the communicator */
	uint64_t count, seq;
	bool seq_from_attach; /* seq counts from the attach, not from the communicator's creation */
	uint32_t tid;
	uint64_t stream;
	uint64_t call_ns;        /* API entry */
	uint64_t enqueue_ns;     /* call, or the outermost GroupEnd; 0 while its group is open */
	uint64_t start_bound_ns; /* not before: enqueue, end of the previous op on its stream, last member's enqueue */
	uint64_t end_ns;         /* seen to be over at this time; 0 open. True end in [end_ns - end_error_ns, end_ns] */
	uint64_t end_error_ns;
	uint64_t signature;                     /* hash(kind, count, dtype, redop, root) */
	uint64_t stream_pos;                    /* position on its stream */
	bool handed_out, grouped;               /* handed_out: model_next_ended() gave it */
	struct op *next, *prev;                 /* of member */
	struct op *next_in_proc, *prev_in_proc; /* all operations of that process in call order */
	uint64_t nth;                           /* its number among all operations of the process, from 0 */
	uint64_t rank_nth;                      /* where by_threads, among those of its rank: op_clock_nth() */
	uint64_t arrive_bound_ns;   /* it was ready for it not before: enqueue, end bound of its stream's previous op */
	uint64_t not_done_ns;       /* newest observation that it was not over, 0 none */
	uint64_t seq_checked_ns;    /* NCCL's counters last confirmed its member's numbers; == call_ns: this very one */
	bool captured;              /* into a graph: never runs itself, takes no number */
	uint64_t graph_exec;        /* ran in a launch of this graph (SEQ_GRAPH, but for P2P); 0 called by the host */
	uint64_t gpu_ns;            /* GPU time, as the framework measured it; 0 unknown */
	uint64_t sync_ns;           /* newest end of a host wait for the GPU before the call; 0 none seen */
	uint32_t graph_i, graph_n;  /* its place among the operations of its graph's launch */
	uint64_t process_group_seq; /* PyTorch's own number, if in_process_group: WorkNCCL(SeqNum=..) of its log */
	bool in_process_group;
	struct op_net net;
};

struct call { /* the host is in a driver call: a wait for the GPU, or another that takes long */
	uint32_t tid;
	bool is_sync; /* a wait for the GPU: kind, handle */
	enum sync_kind kind;
	uint64_t handle, begin_ns;
	const char *name; /* "cuMemAlloc"; waits: "cuStreamSynchronize" and so on */
	struct call *next;
};

struct comm_init_member { /* one rank in the creation call */
	struct proc *proc;
	uint32_t tid;
	int rank;          /* in the new communicator (Split and the like: in the parent); -1 not known */
	uint64_t since_ns; /* it called, in a group: its GroupEnd; 0: in a group that is open, it does not wait yet */
	uint64_t done_ns;  /* it is through; 0 still inside, or (non-blocking) not used yet */
	struct comm_init_member *next;
};

/* A communicator that is being created: collective, so a rank that is missing keeps all others waiting. Freed soon
 * after every expected rank is through, or all inside are gone. */
struct comm_init {
	enum comm_init_kind kind;
	uint64_t id_hash;    /* of the unique id; 0: made from `parent` */
	struct comm *parent; /* Split, Shrink, Grow: all its ranks must call (Shrink: those that stay) */
	uint64_t nth;        /* which such call on the parent, from 1 */
	int nranks;          /* expected callers; -1 unknown */
	int n_called;
	uint64_t first_ns; /* the first rank called */
	uint64_t last_ns;  /* the newest caller called */
	struct comm_init_member *members;
	struct comm_init *next;
};

struct model {           /* read by detectors and sinks as const */
	uint64_t now_ns; /* newest event */
	uint64_t start_ns, start_realtime_ns;
	uint64_t resumed_ns;         /* the stream begins with a snapshot of that time; 0: with the session */
	uint64_t realtime_offset_ns; /* as of now: for people, and for nothing else */
	uint64_t dstate_limit_ns, hang_floor_ns, busy_limit_ns;
	const char *host;    /* the session's; of a merge all of them, as one text */
	struct node **nodes; /* by number; NULL where none is known: model_next_node() */
	uint32_t n_nodes;    /* places in `nodes` */
	bool merged;         /* the stream holds several hosts' records, each at what was asked for there */
	bool reported;       /* its hosts report from time to time: nothing is known of one behind its last report */
	struct proc *procs;  /* in order of appearance, but that last come those of the past: */
	struct proc *past;   /* the first that ended long ago, is in no communicator and leads no child; NULL none */
	struct proc **procs_tail; /* behind the last one before `past` */
	struct comm *comms, **comms_tail;
	struct comm_init *comm_inits;
	uint64_t lost;                                    /* records, of all classes */
	uint64_t last_loss_ns;                            /* of a class that verdicts rest on (not LOSS_BULK) */
	uint64_t n_events, n_ops, n_ops_ended, n_refused; /* n_refused: as in procs, the forgotten included */
	size_t n_procs, n_members, n_comms;               /* kept now, the dead included */
	bool stopped, by_autopsy, by_session;             /* EV_STOP seen; who began the stream, neither: not known */
	struct known_phases known_phases;                 /* what earlier sessions learnt of pauses */
	struct qps qps;
	struct tcp_connections tcp; /* RDMA queue pairs, TCP connections of the traced processes */
	struct model_state *state;  /* private: hash tables, op queue */
};

/* NULL: no record of such a host came. */
static inline struct node *model_node(const struct model *m, uint32_t number)
{
	return number < m->n_nodes ? m->nodes[number] : NULL;
}

/* The next one that is known: NULL before the first and after the last. */
static inline struct node *model_next_node(const struct model *m, const struct node *last)
{
	for (uint32_t i = last ? last->number + 1 : 0; i < m->n_nodes; i++)
		if (m->nodes[i])
			return m->nodes[i];
	return NULL;
}

/* Of all nodes, one behind the other. */
static inline const struct port *model_next_port(const struct model *m, const struct port *last)
{
	const struct port *p = last ? last->next : NULL;
	const struct node *n = last ? last->node : NULL;

	while (!p && (n = model_next_node(m, n)))
		p = n->ports;
	return p;
}

struct model *model_new(void);
void model_free(struct model *m);

/* Apply one event. 0, or -ENOMEM (the model is then still consistent), -EINVAL for an event that makes no sense
 * (unknown kind); events about processes never announced are accepted and make a process with rank -1. */
int model_apply(struct model *m, const struct event *e);
bool model_is_autopsy(const struct model *m); /* of old recordings: its hang limit is below a session's */
/* Operations whose end became known (or, after EV_STOP, never will) since the last call, oldest first; NULL when
 * drained. The pointer is valid until the next model_apply(). */
const struct op *model_next_ended(struct model *m);

/* The step that ended by the newest event; NULL: none did. Valid until the next model_apply(). */
const struct step_done *model_step_done(const struct model *m);
void model_hold_texts(const struct model *m, struct intern *t);      /* intern_hold() for each text that it points to */
uint64_t proc_texts_owner(const struct proc *p);                     /* event_proc_owner(); 0 not known */
const struct proc *model_proc(const struct model *m, uint64_t proc); /* by proc_key() */
const struct counter *proc_counter(const struct proc *p, const char *name); /* NULL: no such value was reported */
const struct task *model_task(const struct model *m, uint64_t proc, uint32_t tid);
const struct proc *model_rank(const struct model *m, const struct job_id *job, int rank); /* job NULL: any */
/* The member's operation with this sequence number among ops of `space` (SEQ_*); NULL: not entered or dropped. */
const struct op *member_op(const struct member *mb, int space, uint64_t seq);
/* The same for Send and Recv: number `seq` to or from `peer` (rank in the communicator). */
const struct op *member_p2p_op(const struct member *mb, enum op_kind kind, int peer, uint64_t seq);
int op_space(const struct op *op); /* SEQ_*, -1 for Send and Recv */
/* Its host is silent: what it did last says nothing of now. */
static inline bool proc_unobserved(const struct proc *p)
{
	return p->node->silent_ns != 0;
}

/* Do this member's numbers in `space` (-1: Send and Recv) mean the same as its peers'? Counted collectives: met at its
 * creation or from NCCL's counters. All others, also those launched in graphs: only if met at its creation, with
 * nothing missed since. Of a host that is silent: no. */
bool member_comparable(const struct member *mb, int space);
/* Its number did not slip by records that were lost since NCCL's counters last confirmed it. */
bool op_number_sure(const struct model *m, const struct op *op);
uint64_t op_duration_ns(const struct op *op); /* end - enqueue, 0 unknown */
/* A member that trails its peers for longer is late beyond what this communicator is used to: the largest of the
 * session's floor, 5 x its p99.9 lag, and its habit with a margin of 4 x that, at most 3 s. COMM_WARMUP_NS during
 * warm-up; COMM_CARE_NS where only samples show it, and too few. */
uint64_t comm_lag_limit_ns(const struct model *m, const struct comm *c);
/* When the last (the first) member entered collective `seq` of `space`; 0: too long ago, or none did. */
uint64_t comm_entry_ns(const struct comm *c, int space, uint64_t seq);
uint64_t comm_first_entry_ns(const struct comm *c, int space, uint64_t seq);
/* Entered is not reached. The oldest open operation that must be over before this one can begin: before it on its
 * stream, or behind a wait (cuStreamWaitEvent) in front of it; not one of its own NCCL group, these run together.
 * NULL: none is known; what is no NCCL operation is not seen. */
const struct op *op_blocked_by(const struct op *op);
/* It is enqueued, and nothing known is in front of it: its GPU is at it (or past it). */
bool op_reached(const struct op *op);
/* Calls `each` for the open operations of the process that are reached: where its streams stand. */
void proc_heads_each(const struct proc *p, void (*each)(void *arg, const struct op *op), void *arg);
/* The oldest open operation that must be over before this wait for the GPU returns. NULL: none is known. */
const struct op *call_blocked_by(const struct proc *p, const struct call *c);
/* A thread of it sits in a wait for the GPU. */
bool proc_waits(const struct proc *p);
/* Global rank of a process: by its environment, else in its largest communicator; -1 unknown, or `shared`. */
int proc_rank(const struct proc *p);
/* Global rank of rank `r` of the communicator; -1 not seen here. */
int comm_global_rank(const struct comm *c, int r);
/* Of a member: its process's; where that is shared, the rank that its GPU has in the largest communicator. */
int member_rank(const struct member *mb);
/* The GPU that it runs on: as NVML counts where its process has one alone, else as the process counts; -1 unknown. */
int member_gpu(const struct member *mb);
/* CPU share of a task between the last two scans: 0..1 core; -1 not known. */
double task_cpu_share(const struct task *t);

#endif
