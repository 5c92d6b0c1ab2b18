/* SPDX-License-Identifier: Apache-2.0
 *
 * state.h - what the model keeps for itself: hash tables around the public records, streams with what is queued
 * on them, threads with their open groups. Included by user/model/ and nothing else.
 */
#ifndef RANKTRACE_MODEL_STATE_H
#define RANKTRACE_MODEL_STATE_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "model/ahead.h"
#include "model/qp_private.h"

#define STREAM_ITEMS_MAX 8192 /* queued and not known done, per stream */
#define STREAMS_MAX 1024      /* per process */
#define CUDA_EVENTS_MAX 8192  /* per process */
#define MODEL_OPS_ALL 131072  /* operations kept of all living processes together, about 40 MB; */
#define MODEL_OPS_MIN 1024    /* but of each at least */
#define MODEL_OPS_DEAD 256    /* of a process that is gone */
#define LAG_BUCKETS 256       /* 8 an octave from 1 us: up to 4,000 s */
#define ENTRY_RING 512        /* operations of a communicator whose entries are being counted */

struct item { /* one thing queued on a stream: an operation, or a wait for another stream */
	uint64_t pos, ns;
	uint32_t tid;
	struct op *op;      /* NULL for a wait, or when the operation was dropped */
	struct stream *dep; /* waits for this stream to pass dep_pos */
	uint64_t dep_pos;
	struct item *next;
};

struct captured {      /* one thing in a graph: an operation, or a wait of one of its lanes for another */
	uint64_t comm; /* ncclComm*; 0 a wait */
	enum op_kind kind;
	int dtype, redop, root, peer;
	uint64_t count, group; /* group: equal for operations of one NCCL group, 0 none */
	uint64_t ns;           /* captured then: of a communicator born before */
	int lane, dep_lane;
	uint64_t dep_n; /* waits for the first dep_n things of dep_lane */
};

/* What was captured. A lane is a stream that took part, 0 the one that began. Of a graph, its clones and execs. */
struct work {
	int refs, n_lanes;
	bool cut; /* there was more */
	uint64_t begin_ns, end_ns;
	uint64_t *lane_n; /* things in each lane */
	size_t n, cap, n_ops;
	struct captured *items;
	uint64_t number; /* its number in the snapshot that goes on */
};

struct capture { /* going on */
	uint64_t id;
	uint32_t tid;
	struct work *work;
	struct capture *next;
};

struct graph { /* or an exec: `work` NULL when its capture was not seen */
	uint64_t handle;
	struct work *work;
	UT_hash_handle hh;
};

struct stream {
	uint64_t handle;
	uint64_t pos;      /* of the newest item */
	uint64_t done_pos; /* everything up to here is over */
	uint64_t lower_ns; /* the newest item known to be over ended not before */
	uint64_t target;   /* while completing: to be passed */
	bool in_work;
	uint64_t polled_pos, polled_ns; /* the item behind which a thread polls the stream, and its last poll */
	uint64_t probe_pos, probed_pos; /* while looking for what is in front of an operation */
	struct stream *next_probe;
	size_t n_items;
	struct item *head, *tail;
	struct stream *next_work;
	struct stream *next;     /* of proc */
	struct capture *capture; /* it is being captured, as `lane` of that */
	int lane;
	struct stream **lanes; /* the branches of graphs launched on it; [0] unused */
	int n_lanes;
	UT_hash_handle hh;
};

struct cuda_event { /* as last recorded */
	uint64_t handle;
	struct stream *stream;
	uint64_t pos;
	uint64_t capture_id; /* recorded into that capture, behind lane_n things of `lane`; 0 none */
	int lane;
	uint64_t lane_n;
	uint64_t ns;        /* recorded then */
	uint64_t n_ops;     /* operations its process had called by then */
	uint64_t op_id;     /* of the operation right in front of it on its stream; 0 none, or not known */
	uint64_t tight_pos; /* set when the event follows that operation at once: not done = the operation is not */
	UT_hash_handle hh;
};

struct call_own {
	struct call c;
	struct stream *stream; /* of an event wait, and the position it waits for */
	uint64_t pos;
};

struct task_own {
	struct task t;
	uint64_t group_begin_ns; /* outermost GroupStart of the open group; 0 none, or not seen */
	struct op **pending;     /* called in the open group */
	size_t n_pending, cap_pending;
	struct said *said; /* what PyTorch calls NCCL for next; NULL not said */
	UT_hash_handle hh;
};

struct op_own {
	struct op op;
	struct item *item;     /* NULL: not queued any more */
	struct stream *stream; /* of `item` */
	uint64_t group;        /* equal for operations of one NCCL group, which run together; 0 none */
	uint64_t reported_id;  /* its number at its host, which reports it; 0 it was seen here */
	struct op_own *next_out;
	bool queued_out, dropped;
};

struct member_own {
	struct member m;
	struct member **at;  /* what points to it in its communicator's list */
	uint64_t born_ns;    /* met */
	uint64_t n_children; /* Split, Shrink, Grow called on it */
	struct proxy_part *sample;
	int n_sample, want_sample; /* a sample of the proxy, not whole yet: so many of so many parts */
	UT_hash_handle hh;         /* of proc, by addr */
};

struct rank_procs { /* all processes that carry this rank's number: of its jobs, of its lives, and their children */
	int rank;
	struct proc_own *first;
	UT_hash_handle hh;
};

struct proc_own {
	struct proc p;
	uint64_t nth;               /* in order of appearance */
	struct rank_procs *of_rank; /* NULL: it has no rank */
	struct proc_own *next_same_rank;
	struct job_scope *scope; /* NULL: nothing is known of it */
	bool hashed;
	bool warm;     /* its first steps are over: some communicator of it was warm */
	bool unprobed; /* its probes were taken away, by its tier or the budget: what one still shows is of before */
	bool needed, reaped, past; /* while sweeping: leader of a living process; to be freed; to come last */
	struct task_own *tasks;
	struct member_own *members;
	struct stream *streams;
	struct cuda_event *cuda_events;
	struct capture *captures;
	struct graph *graphs, *execs;
	int n_lanes; /* streams that are branches of graphs */
	struct iteration_clock clock;
	struct phases *phases; /* NULL: no mark of PyTorch came */
	UT_hash_handle hh;
};

struct caller { /* of a creation */
	struct comm_init_member b;
	uint64_t addr; /* reported when it returned; 0 not */
	bool grouped;  /* inside GroupStart and GroupEnd */
	bool async;    /* returned, but is not through */
};

struct entries {
	uint64_t seq;
	uint32_t n;
	bool used, complete;
	uint64_t first_ns, last_ns;
};

struct comm_own {
	struct comm c;
	uint64_t said;                    /* its hash as NCCL says it: c.hash, but for a second owner's */
	uint64_t owner;                   /* whose processes may be in it: proc_owner() */
	struct comm **at;                 /* what points to it in the model's list */
	struct entries *ring[SEQ_SPACES]; /* [ENTRY_RING]; NULL until one is entered */
	uint32_t lag[LAG_BUCKETS], duration[LAG_BUCKETS];
	uint64_t n_lag, n_duration;
	uint32_t habit[LAG_BUCKETS]; /* of all lags, reported or not */
	uint64_t n_habit;
	uint64_t lag_level;    /* the operation whose lag was the last in habit, by samples, in that bucket: */
	unsigned int lag_last; /* several ranks are late for it, and it counts once */
	uint64_t asked_seq, asked_ns, asked_since_ns; /* sampled_since_ns() of a large one: the last answer */
	uint64_t stood_at;                            /* the highest number at which samples showed a member to stand */
	unsigned int n_advances;                      /* samples that showed it to go on */
	bool warm, habitual;                          /* habitual: by samples enough is known of it */
	uint64_t idle_ns;                             /* since then no member is alive; 0 not so */
	UT_hash_handle hh;
	bool hashed;
	uint64_t n_judged; /* c.n_called when its parallelism was last judged */
};

struct model_state {
	struct proc_own *procs, *found; /* by proc_key(), the living or newest; the last that was asked for */
	struct rank_procs *ranks;       /* by rank */
	uint64_t n_procs_ever;
	struct comm_own *comms;             /* by hash */
	struct op_own *out_head, *out_tail; /* for model_next_ended */
	struct op_own *given;               /* handed out and dropped: freed at the next event */
	uint64_t next_op_id, next_group, next_capture;
	uint64_t swept_ns, n_died; /* the last sweep; processes that died since */
	bool any_unprobed;         /* some process was, once */
	uint64_t ops_kept;         /* of each living process, as of the last tick */
	uint64_t *scratch;         /* of the iteration clock */
	double *scratch_s;
	struct work **taken; /* captured work by its number, while a snapshot is taken */
	size_t n_taken;
	struct qp_state qp;
	struct jobs *jobs;
	struct step_done step_done; /* of the newest event, if it has one */
	bool has_step_done;
	bool ahead_stale, jobs_stale; /* processes or communicators changed since ahead_tick(), jobs_tick() */
};

static inline struct proc_own *proc_own(struct proc *p)
{
	return (struct proc_own *)p;
}
static inline struct comm_own *comm_own(struct comm *c)
{
	return (struct comm_own *)c;
}
static inline struct op_own *op_own(struct op *op)
{
	return (struct op_own *)op;
}

/* proc.c */
struct proc_own *proc_get(struct model *m, uint64_t proc, uint64_t ts_ns); /* makes it; NULL without memory */
struct task_own *task_get(struct proc_own *p, uint32_t tid);
/* COMM_SCAN PROC EXEC FORK EXIT TIER THREAD TASK TASK_AT STACK WAIT BLOCKED BLOCKED_END */
int proc_apply(struct model *m, const struct event *e);
void proc_unhash(struct model *m, struct proc_own *p); /* its tgid may be another's */
void proc_free(struct proc_own *p);
void cuda_events_forget(struct proc_own *p); /* CUDA events: what is recorded next is not seen */
bool proc_is_unprobed(const struct model *m, uint64_t proc);

/* job.c */
int proc_place(struct model *m, struct proc_own *p, const struct event_proc *e); /* sets its job */
uint64_t proc_owner(const struct proc *p);
bool owners_differ(uint64_t a, uint64_t b);                                   /* both are known */
void proc_follow(struct model *m, struct proc *p, const struct proc *leader); /* a child is of its rank's job */
void proc_leave(struct proc_own *p);                                          /* before it is freed */
bool same_rank(const struct proc *a, const struct proc *b); /* of one job, as far as is known between two ticks */
void member_tied(struct model *m, const struct member *mb); /* it joined its communicator */
int jobs_tick(struct model *m);

/* comm.c */
void member_unhash(struct proc_own *p, struct member_own *mb); /* its address may be another's */
struct member_own *member_find(const struct proc_own *p, uint64_t addr);
/* Makes it; an address that was given back belongs to another communicator when it is met again. NULL in *ret:
 * -ENOMEM, or 0 where the process has too many: counted, and not followed. */
int member_get(struct model *m, struct proc_own *p, uint64_t addr, uint64_t ts_ns, struct member_own **ret);
void comm_leave(struct model *m, struct member *mb);
void comm_free(struct comm_own *c);
int comm_apply(struct model *m, const struct event *e); /* COMM_READY COMM_SEEN COMM_GONE */
void members_forget_sampled(struct proc *p);            /* those of which no call was seen */
void member_forget(struct member *mb); /* its communicator is over, or its process became another program */
void member_correct(struct member *mb, uint64_t counters_sum, uint64_t ts_ns); /* by NCCL's own count */
void member_free(struct member_own *mb);
int member_join(struct model *m, struct member *mb, uint64_t hash, int rank, int nranks, uint64_t ts_ns);

/* outside.c */
int sample_apply(struct model *m, const struct event *e);   /* COMM_SAMPLE */
int vanished_apply(struct model *m, const struct event *e); /* COMM_VANISHED */

/* reported/reported.c */
int reported_apply(struct model *m, const struct event *e); /* REPORTED */

/* gpu.c */
struct gpu *gpu_get(struct node *n, uint32_t index);        /* makes it; NULL without memory, or past GPUS_MAX */
int gpu_apply(struct model *m, const struct event *e);      /* GPU_* */
int xid_apply(struct model *m, const struct event *e);      /* XID */
int pressure_apply(struct model *m, const struct event *e); /* PRESSURE */
/* comm_init.c */
int comm_init_apply(struct model *m, struct proc_own *p, const struct event *e); /* COMM_INIT COMM_READY COMM_SEEN */
void comm_init_used(struct model *m, const struct proc_own *p, uint64_t addr, uint64_t hash, uint64_t ns);
bool comm_init_seen(const struct model *m, const struct proc_own *p, uint64_t hash); /* it called the creation */
void comm_inits_moved_on(struct model *m, const struct proc_own *p, uint32_t tid, bool at_end, uint64_t ns);
void comm_inits_tick(struct model *m);
void comm_inits_forget_proc(struct model *m, const struct proc *p);
void comm_inits_forget(struct model *m, const struct comm *parent);
struct comm_init *comm_init_add(struct model *m, const struct comm_init *like); /* NULL without memory */

/* lag.c */
void comm_entered(const struct model *m, const struct op *op); /* counts entries, feeds the lag statistic */
void comm_ended(const struct op *op);
void comm_contradicted(const struct op *op); /* it is over: a rank that did not enter it by our count was miscounted */
void comm_entry_taken(const struct op *op, bool complete); /* counts the entry, and nothing else */
bool comm_entry_complete(const struct op *op);             /* all that were known entered it */
void comm_quantiles(struct comm_own *c);                   /* from its histograms */
/* This sampled member went on to number `seq` (its counters' sum) at ts_ns: called before its numbers change. */
void comm_sampled(struct member *mb, uint64_t seq, uint64_t ts_ns);
void comm_stood(struct member *mb, uint64_t seq); /* it stands there: called behind its numbers' change */
uint64_t comm_last_entry_ns(const struct op *op); /* enqueue of the last member `op` depends on, 0 unknown */

/* comm_shape.c */
void parallel_tick(struct model *m);

/* op.c */
int op_apply(struct model *m, const struct event *e); /* OP GROUP_START GROUP_END */
void group_flush(struct model *m, struct proc_own *p, struct task_own *t, uint64_t ns);
int op_hold(struct task_own *t, struct op *op);               /* until its group ends */
void op_link(struct model *m, struct proc *p, struct op *op); /* into the lists; takes the next numbers */
struct p2p_seq *p2p_get(struct member *mb, int peer);         /* NULL: no such peer, or no memory */
uint64_t op_signature(const struct op *op);
void ops_bound(struct model *m, struct member *mb); /* drop what is too old to be kept */
void ops_tick(struct model *m);                     /* that for all, and share the room out */
void op_out(struct model *m, struct op *op);        /* give it to model_next_ended() */
void op_drop(struct model *m, struct op *op);       /* the member forgets it */
/* Of a graph launch, as if the launching thread had called it now. NULL: its communicator is gone, or no memory. */
struct op *op_launched(struct model *m, struct proc_own *p, const struct captured *c, const struct event *e);
void op_enter(struct model *m, struct op *op, struct stream *s, uint64_t ns);
void op_ended(struct model *m, struct op *op, uint64_t ns, uint64_t lower_ns);

/* stream.c */
uint64_t stream_name(uint64_t handle, uint32_t tid); /* as in struct stream */
struct stream *stream_get(struct proc_own *p, uint64_t handle, uint32_t tid);
struct stream *stream_lane(struct proc_own *p, struct stream *s, int lane); /* lane 0: `s` itself */
struct item *item_push(struct stream *s, uint32_t tid, uint64_t ns);
struct cuda_event *cuda_event_renew(struct proc_own *p, uint64_t handle); /* the newest last; NULL without memory */
int stream_queue(struct stream *s, struct op *op);                        /* enqueue_ns set */
int stream_apply(struct model *m, const struct event *e);                 /* SYNC_* CUDA_EVENT* STREAM_QUERY ELAPSED */
void stream_take_out(struct op *op);                                      /* it is queued nowhere any more */
void streams_free(struct proc_own *p);

/* counter.c: COUNTER */
int counter_apply(struct model *m, const struct event *e);
void counters_free(struct proc *p);
/* storage/storage.c */
int storage_apply(struct model *m, const struct event *e); /* STORAGE */
void storage_free(struct proc *p);
/* calls.c */
int call_apply(struct model *m, const struct event *e);        /* CALL CALL_OPEN CUDA_ERROR */
struct call_own **call_find(struct proc_own *p, uint32_t tid); /* the link to it; *link NULL: in none */
void call_forget(struct proc_own *p, uint32_t tid);

/* capture.c */
int capture_apply(struct model *m, const struct event *e); /* CAPTURE */
void capture_op(struct capture *c, int lane, const struct op *op, uint64_t group);
void capture_guess(struct proc_own *p, struct stream *s, uint32_t tid); /* before an operation is called on it */
void capture_wait(struct proc_own *p, struct stream *s, const struct cuda_event *k);
void capture_cuda_event(const struct stream *s, struct cuda_event *k);
void capture_over(struct proc_own *p, struct stream *s); /* it cannot be going on any more */
void capture_failed(struct proc_own *p, uint32_t tid);   /* cuStreamEndCapture returned an error */
void captures_free(struct proc_own *p);
struct work *work_new(uint64_t ns); /* one lane, one reference */
void work_unref(struct work *w);
void work_add(struct work *w, const struct captured *what);
int lane_new(struct work *w);                                         /* the lane's number, -1 no room */
int graph_set(struct graph **table, uint64_t handle, struct work *w); /* takes the reference */

/* ranks.c */
int rank_set(struct model *m, struct proc_own *p, int rank); /* 0 or -ENOMEM */
void proc_unrank(struct model *m, struct proc_own *p);       /* before it is freed */
void leaders_link(struct model *m, struct proc *p);          /* its rank's own process, or its children */
void ranks_free(struct model *m);

/* scan.c */
void task_scanned(struct task *t, const struct event *e);
void proc_io_scanned(struct proc *p, uint64_t bytes, uint64_t ts_ns); /* in all; 0 not known */

/* reap.c */
void reap_tick(struct model *m);
void reap_died(struct model *m);

/* snapshot.c: SNAPSHOT; the numbers of captured work */
int snapshot_apply(struct model *m, const struct event *e);
void snapshot_free(struct model_state *st);

/* phases.c */
int phases_apply(struct model *m, const struct event *e);        /* TORCH */
int phases_stored(struct model *m, const struct event *e);       /* TASK_OFF */
int phases_gc(struct model *m, const struct event *e);           /* PYTHON_GC */
int process_group_apply(struct model *m, const struct event *e); /* TORCH_GROUP */
void process_group_call(struct task_own *t, struct op *op);      /* the thread calls NCCL for @op, which is new */
void process_groups_forget(struct proc_own *p);                  /* what its threads said was missed, or is of before */
void phases_waited(struct proc_own *p, const struct event *e);   /* SYNC_END, after its streams know */
void phases_called(struct model *m, struct proc_own *p, const struct op *op); /* its thread calls @op, which is new */
void phases_reset(struct proc_own *p); /* marks were missed: the present step is not known */
void phases_begin(struct proc_own *p); /* other marks are seen from now on */
void phases_free(struct proc_own *p);

/* steps/ */
int steps_tick(struct model *m, struct proc_own *p);
void clock_count(struct proc *p, struct op *op);               /* a new one: its number among those of its rank */
struct rank_clock *rank_clock_get(struct proc *p, int device); /* makes it; NULL without memory */
void rank_clocks_free(struct proc *p);
bool step_number(const struct steps *s, uint64_t n_ops, uint64_t *ret_step); /* of its next operation */

#endif
