/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank and its parts: communicators, operations on them as PyTorch does them, the step, watchdog and dataloader.
 * Everything here runs in the rank's process.
 */
#ifndef SIMJOB_RANK_H
#define SIMJOB_RANK_H

#include "tools/simjob/job/api.h"
#include "tools/simjob/job/fault.h"
#include "tools/simjob/job/layout.h"
#include "tools/simjob/job/random.h"
#include "tools/simjob/job/store.h"

#include <pthread.h>

enum op_kind {
	OP_BROADCAST,
	OP_BCAST, /* logged as Broadcast: NCCL does nothing else */
	OP_REDUCE,
	OP_ALL_GATHER,
	OP_REDUCE_SCATTER,
	OP_ALL_REDUCE,
	OP_ALL_TO_ALL,
	OP_GATHER,
	OP_SCATTER,
	OP_SEND,
	OP_RECV,
	NR_OP_KINDS,
};

struct op_call {
	enum op_kind kind;
	size_t count;
	ncclDataType_t datatype;
	int root_or_peer;
};

/* A communicator with its stream and the job's own numbering of what was called on it. */
struct job_comm {
	const char *name;
	const struct api *api; /* with the copy of libnccl that it lives in */
	ncclComm_t comm;       /* NULL: the group has one member, there is none */
	CUstream stream;
	CUevent start; /* of the operation that has begun, with --timing */
	uint64_t hash;
	int size, rank;
	uint64_t collective_seq;           /* of the five that NCCL counts */
	uint64_t graph_seq;                /* of all but Send and Recv that ran in a graph */
	uint64_t other_seq[NR_OP_KINDS];   /* of AlltoAll, Gather and Scatter, each */
	uint64_t *send_seq, *recv_seq;     /* a peer each */
	uint64_t group_seq, group_p2p_seq; /* as PyTorch counts them for the process group */
};

/* An operation or group in flight, as PyTorch's WorkNCCL: held by the watchdog and by what still waits for it. */
struct work {
	struct work *next; /* the watchdog's list */
	_Atomic uint32_t refs;
	CUevent start; /* NULL without --timing */
	CUevent end;
	uint64_t issued_ns;
	const char *op;
	const struct job_comm *comm;
};

struct watchdog {
	pthread_t thread;
	pthread_mutex_t lock;
	struct work *works, **works_tail;
	_Atomic uint32_t stopping; /* futex */
};

/* A captured piece of the step and the operations that a launch of it runs. */
struct graph_op {
	struct job_comm *comm;
	struct op_call call;
};

struct step_graph {
	CUgraphExec exec; /* NULL: not captured yet */
	struct graph_op *ops;
	int nr_ops;
};

/* allocator.c */
#define MAX_SEGMENTS 64
struct allocator {
	char *pinned;
	CUdeviceptr segments[MAX_SEGMENTS]; /* or, where they are pages of @range, their handles */
	int nr_segments;
	CUdeviceptr range; /* 0: there is none */
};

/* What an injection keeps of itself in each rank. */
struct injection_state {
	bool begun, done;
	uint64_t begun_ns;
};

#define NR_STEP_PARTS (PART_OTHER + 1)

struct step_stamp {
	uint64_t ns;         /* 0: none */
	long before, behind; /* how often the thread had lost its CPU, on both sides of the clock */
	uint64_t gc_ns;      /* its collections took, in all */
};

struct step_log { /* of the step at hand; see parts.c */
	int fd;   /* -1: none is asked for */
	uint64_t step_ns, part_ns[NR_STEP_PARTS];
	uint64_t gc_ns;                   /* collections before it */
	bool is_preempted[NR_STEP_PARTS]; /* a stamp of it may be late */
	int nr_backwards;
	struct step_stamp begin, forward, forward_end; /* of the part at hand; of a forward without its backward */
};

struct rank {
	const struct options *options;
	struct api api;
	struct api second_api; /* with --nccl-lib2 that copy of libnccl, else the same */
	struct store *store;
	int rank, pid, log_fd, fault_log_fd;
	struct layout_position position;
	struct random random;
	struct job_comm world, dp, tp, pp;
	CUcontext context;
	CUstream compute;
	CUstream copy; /* with --cuda-events: waits for the compute stream, again and again, by this event */
	CUevent copy_event;
	CUmodule module;
	CUfunction kernel;
	CUlibrary optimizer; /* loaded when it is first needed, as CUDA loads lazily */
	CUdeviceptr buffer;
	struct allocator allocator;
	struct step_graph *graphs; /* NULL: --graph is not used */
	int nr_graphs;
	int graph_from_step; /* those before are eager */
	CUstream side;       /* captures take place there */
	struct step_graph *capturing;
	bool launching; /* a graph: the operations at hand are in it */
	struct watchdog watchdog;
	int batch_fds[MAX_WORKERS]; /* of the dataloader's children, which take turns; -1: no dataloader */
	int loader_pids[MAX_WORKERS];
	int next_worker; /* whose batch is next; in a child: which it is */
	struct step_log step_log;
	struct sim_range *range; /* that is open; with --torch */
	char *batch;
	uint64_t loader_start_ns; /* the dataloader's next child takes so long to begin */
	int generation;           /* elastic restarts so far */
	bool has_had_extra_comms;
	uint64_t result;   /* what its communicators' data came to, see mix.h */
	struct turn *turn; /* NULL: it has a thread of its own */
	int step;
	int resumed_step; /* its process was started anew for this one; -1 not */
	int op_in_step, ops_last_step;
	bool is_loss_reduced; /* by a fault, before its turn */
	struct injection_state injections[MAX_INJECTIONS];
};

static inline struct injection_state *injection_state(struct rank *rank, const struct injection *injection)
{
	return &rank->injections[injection->index];
}

/* What it shares with the other processes of the job. */
static inline struct store_injection *injection_shared(const struct rank *rank, const struct injection *injection)
{
	return &rank->store->injections[injection->index];
}

/* allocator.c */
void allocator_open(struct rank *rank);
void allocator_step(struct rank *rank);
void allocator_close(struct rank *rank);

/* comms.c */
/* Makes the id that is number @index in the store, when @is_first, and else gets it from there. */
void id_share(struct rank *rank, const struct api *api, int index, bool is_first, ncclUniqueId *ret_id);
void comm_set_up(struct rank *rank, const struct api *api, struct job_comm *comm, const char *name, ncclComm_t handle);
/* Cut short, where comm_destroy() waits. */
void comm_abort(struct rank *rank, struct job_comm *comm);
ncclConfig_t comm_config(const char *name, int blocking);
void comms_create(struct rank *rank);
void comms_destroy(struct rank *rank);
/* A part of the world, or all of it: those ranks that say the same @color. */
void comm_split(struct rank *rank, struct job_comm *comm, const char *name, int color, int key);
/* The id in the store that is this injection's, for a communicator that it may want. */
int injection_id_index(const struct rank *rank, const struct injection *injection);
void comm_destroy(struct rank *rank, struct job_comm *comm);

/*
 * ops.c: an operation as PyTorch issues it. op_begin() makes the communicator's stream wait for the compute stream,
 * op_call() is the NCCL call itself (logged, and the place where hooks are called), op_finish() records the end event
 * and hands the work to the watchdog; work_wait() makes the compute stream wait for it and lets go of it.
 */
void op_begin(struct rank *rank, struct job_comm *comm);
void op_call(struct rank *rank, struct job_comm *comm, const struct op_call *call);
struct work *op_finish(struct rank *rank, struct job_comm *comm, enum op_kind kind);
void work_wait(struct rank *rank, struct work *work);
void work_put(const struct api *api, struct work *work);
/* The line of the log, and the number; op_call() does it for what is called. */
void op_log(struct rank *rank, struct job_comm *comm, const struct op_call *call, uint64_t t_ns);
/* All of the above for one operation. */
void op_run(struct rank *rank, struct job_comm *comm, const struct op_call *call);
const char *op_name(enum op_kind kind);

/* step.c */
void step_run(struct rank *rank);
void params_broadcast(struct rank *rank);
void world_barrier(struct rank *rank);
/* One launch on the compute stream, @duration_ns before jitter and slowness. */
void compute_launch(struct rank *rank, double duration_ns);
void compute_synchronize(struct rank *rank);
/* What jitter and slowness make of a kernel's duration now. */
double kernel_factor(struct rank *rank);
void forward_run(struct rank *rank);
/* The all-reduce of the loss over the world, unless this step has made it already. */
void loss_reduce(struct rank *rank);

/* graphs.c: with the communicators they come and go, which they keep busy. */
void graphs_create(struct rank *rank);
void graphs_destroy(struct rank *rank);
/* Whether pieces of that mode are to be run as graphs now. */
bool graphs_are_used(const struct rank *rank, enum graph_mode mode);
typedef void (*graph_body_fn)(struct rank *rank, double layer_ns);
/* Captures @body when it is new, and launches it. */
void graph_run(struct rank *rank, int index, graph_body_fn body, double layer_ns);
/* The operation is being captured. */
void graph_note_op(struct rank *rank, struct job_comm *comm, const struct op_call *call);

/* extra_ops.c, extra_comms.c */
void extra_ops_run(struct rank *rank);
void extra_comms_run(struct rank *rank);

/*
 * one_thread.c. A call that the thread makes for all its ranks in one group comes between group_join() and
 * group_await(), which returns when the group has ended; both do nothing for a rank with a thread of its own, and
 * stream_await() is for the others only: returns when the compute stream is done.
 */
void ranks_live_in_one_thread(struct rank *ranks, int nr_ranks);
void group_join(struct rank *rank);
void group_await(struct rank *rank);
void stream_await(struct rank *rank);

/* watchdog.c */
void watchdog_start(struct rank *rank);
void watchdog_add(struct rank *rank, struct work *work);
/* Returns when every work is complete and the thread is gone. */
void watchdog_stop(struct rank *rank);
/* Blocks until the list is empty, so that communicators can be destroyed. */
void watchdog_drain(struct rank *rank);

/* dataloader.c */
#define BATCH_BYTES (256 * 1024)
void dataloader_start(struct rank *rank);
void dataloader_next(struct rank *rank);
void dataloader_stop(struct rank *rank);

/*
 * parts.c: a part of the step lies between part_begin() and part_end(), but for those that are called: the backward,
 * in which the engine runs @run, and the optimizer's zero_grad().
 */
bool parts_are_marked(const struct rank *rank);
void part_begin(struct rank *rank, enum step_part part);
void part_end(struct rank *rank, enum step_part part);
/* Of another kind than a part's, which may lie around it; NULL without --torch. */
struct sim_range *range_open(const struct rank *rank, const char *name);
void range_close(const struct rank *rank, struct sim_range *range);
/* The optimizer's own work, by @update. */
void optimizer_call(struct rank *rank, void (*update)(void *rank));
void gradients_zero(struct rank *rank, void (*zero)(struct rank *rank));
void backward_call(struct rank *rank, void (*run)(struct rank *rank));

/* An operation that is about to be called; @call may be changed. */
struct op_place {
	struct job_comm *comm;
	struct op_call *call;
};

/* hooks.c: what the job calls at those moments that fault.h describes. */
void hooks_before_world(struct rank *rank);
void hooks_before_step(struct rank *rank);
bool hooks_skip_loader(const struct rank *rank);
double hooks_kernel_factor(struct rank *rank);
/* May sleep, stop, end the process, or change what is called. False: the call is to be left out. */
bool hooks_before_op(struct rank *rank, struct job_comm *comm, struct op_call *call);
void hooks_before_last_bucket(struct rank *rank, const struct op_call *call);
void hooks_after_last_bucket(struct rank *rank, const struct op_call *call);
void hooks_before_batch(struct rank *rank);
void hooks_in_part(struct rank *rank, enum step_part part);

/* fault_log.c */
/* "begin" or "end", on stderr and in the fault log. @place: the operation at hand, or NULL. */
void injection_report(struct rank *rank, const struct injection *injection, const char *phase,
		      const struct op_place *place);
/* The same with @facts of one's own: JSON members, each with a comma before it. */
void injection_report_with(struct rank *rank, const struct injection *injection, const char *phase, const char *facts);

/* rank.c: the life of one rank, or of the several of a process, which ends with the status that it returns. */
int rank_main(const struct options *options);
void rank_live(struct rank *rank);
/* Ends it by SIGTERM; the launcher starts it anew, for this very step and the next generation of communicators. */
__attribute__((noreturn)) void rank_resume_later(struct rank *rank);
/* SIGSTOP to itself; the launcher continues it when the injection's time is up. */
void rank_stop(struct rank *rank, const struct injection *injection);

uint64_t comm_next_seq(const struct rank *rank, struct job_comm *comm, const struct op_call *call, bool advance);
void sleep_until(uint64_t deadline_ns);
void spin_until(uint64_t deadline_ns);
/* CPU time of the calling thread so far. */
uint64_t thread_cpu_ns(void);

#endif
