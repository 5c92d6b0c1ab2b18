/* SPDX-License-Identifier: Apache-2.0
 *
 * state.h - what the model keeps for itself: hash tables around the public records, streams with what is queued
 * on them, threads with their open groups. Included by user/model/ and nothing else.
 */
#ifndef RANKTRACE_MODEL_STATE_H
#define RANKTRACE_MODEL_STATE_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "model/model.h"

#define STREAM_ITEMS_MAX 65536 /* queued and not known done, per stream */
#define STREAMS_MAX 1024       /* per process */
#define MARKS_MAX 65536        /* per process */
#define LAG_BUCKETS 256        /* 8 an octave from 1 us: up to 4,000 s */
#define ENTRY_RING 512         /* operations of a communicator whose entries are being counted */

struct item {              /* one thing queued on a stream: an operation, or a wait for another stream */
	uint64_t pos, ns;
	uint32_t tid;
	struct op *op;         /* NULL for a wait, or when the operation was dropped */
	struct stream *dep;    /* waits for this stream to pass dep_pos */
	uint64_t dep_pos;
	struct item *next;
};

struct stream {
	uint64_t handle;
	uint64_t pos;          /* of the newest item */
	uint64_t done_pos;     /* everything up to here is over */
	uint64_t lower_ns;     /* the newest item known to be over ended not before */
	uint64_t target;       /* while completing: to be passed */
	bool in_work;
	uint64_t probe_pos, probed_pos; /* while looking for what is in front of an operation */
	struct stream *next_probe;
	size_t n_items;
	struct item *head, *tail;
	struct stream *next_work;
	struct stream *next;   /* of proc */
	UT_hash_handle hh;
};

struct mark {              /* a CUDA event as last recorded */
	uint64_t handle;
	struct stream *stream;
	uint64_t pos;
	uint64_t tight_pos;    /* set when the mark follows that operation at once: not done = the operation is not */
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
	struct op **pending;   /* called in the open group */
	size_t n_pending, cap_pending;
	UT_hash_handle hh;
};

struct op_own {
	struct op op;
	struct item *item;     /* NULL: not queued any more */
	struct stream *stream; /* of `item` */
	uint64_t group;        /* equal for operations of one NCCL group, which run together; 0 none */
	struct op_own *next_out;
	bool queued_out, dropped;
};

struct member_own {
	struct member m;
	UT_hash_handle hh;     /* of proc, by addr */
};

struct proc_own {
	struct proc p;
	struct task_own *tasks;
	struct member_own *members;
	struct stream *streams;
	struct mark *marks;
	struct steps steps;
	uint64_t steps_checked_n; /* operations when the clock was last looked at */
	uint64_t steps_found_n;   /* when the period was found */
	uint64_t steps_from_n;    /* history before does not count: the period broke there */
	uint64_t steps_searched_n;
	size_t steps_base;        /* period of the signatures; period_ops is a multiple of it */
	UT_hash_handle hh;
};

struct entries { uint64_t seq; uint32_t n; bool used, complete; uint64_t first_ns, last_ns; };

struct comm_own {
	struct comm c;
	struct entries *ring[SEQ_SPACES]; /* [ENTRY_RING]; NULL until one is entered */
	uint32_t lag[LAG_BUCKETS], duration[LAG_BUCKETS];
	uint64_t n_lag, n_duration;
	bool warm;
	UT_hash_handle hh;
	bool hashed;
};

struct model_state {
	struct proc_own *procs;   /* by tgid, the living or newest */
	struct comm_own *comms;   /* by hash */
	struct op_own *out_head, *out_tail; /* for model_next_ended */
	struct op_own *given;     /* handed out and dropped: freed at the next event */
	uint64_t next_op_id, next_group;
	uint64_t *scratch;        /* of the iteration clock */
	double *scratch_s;
};

static inline struct proc_own *proc_own(struct proc *p) { return (struct proc_own *)p; }
static inline struct comm_own *comm_own(struct comm *c) { return (struct comm_own *)c; }
static inline struct op_own *op_own(struct op *op) { return (struct op_own *)op; }

/* proc.c */
struct proc_own *proc_get(struct model *m, uint32_t tgid, uint64_t ts_ns); /* makes it; NULL without memory */
struct task_own *task_get(struct proc_own *p, uint32_t tid);
int proc_apply(struct model *m, const struct event *e); /* PROC EXEC FORK EXIT THREAD TASK BLOCKED BLOCKED_END */
void proc_free(struct proc_own *p);

/* comm.c */
struct member_own *member_get(struct model *m, struct proc_own *p, uint64_t addr, uint64_t ts_ns);
void comm_free(struct comm_own *c);
int comm_apply(struct model *m, const struct event *e); /* COMM_READY COMM_SEEN COMM_GONE */
void member_forget(struct member *mb);     /* its communicator is over, or its process became another program */
void member_correct(struct member *mb, uint64_t counters_sum, uint64_t ts_ns); /* by NCCL's own count */
void member_free(struct member_own *mb);

/* lag.c */
void comm_entered(const struct model *m, const struct op *op); /* counts entries, feeds the lag statistic */
void comm_ended(const struct op *op);
uint64_t comm_last_entry_ns(const struct op *op); /* enqueue of the last member `op` depends on, 0 unknown */

/* op.c */
int op_apply(struct model *m, const struct event *e); /* OP GROUP_START GROUP_END */
void group_flush(struct model *m, struct proc_own *p, struct task_own *t, uint64_t ns);
void op_out(struct model *m, struct op *op);          /* give it to model_next_ended() */
void op_drop(struct model *m, struct op *op);         /* the member forgets it */
void op_ended(struct model *m, struct op *op, uint64_t ns, uint64_t lower_ns);

/* stream.c */
int stream_queue(struct proc_own *p, struct op *op);  /* op->stream, enqueue_ns set */
int stream_apply(struct model *m, const struct event *e); /* SYNC_BEGIN SYNC_END MARK MARK_WAIT MARK_QUERY */
void call_forget(struct proc_own *p, uint32_t tid);
void streams_free(struct proc_own *p);

/* steps.c */
int steps_tick(struct model *m, struct proc_own *p);

#endif
