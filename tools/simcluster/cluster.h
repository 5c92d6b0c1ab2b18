/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster.h - a simulated training job of thousands of ranks: who is in which communicator, what a step consists of,
 * and when each rank's host called and each GPU ended what. Seconds, as doubles, since the begin of the simulation.
 *
 * This half knows nothing of ranktrace. What its agents see of it is agent.h's matter, what is made of that, judge.h's.
 */
#ifndef RANKTRACE_SIMCLUSTER_CLUSTER_H
#define RANKTRACE_SIMCLUSTER_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/simcluster/draw.h"

#define PER_HOST 8
#define MICRO_MAX 64
#define STAGES_MAX 64
#define OPS_MAX (2 * MICRO_MAX + 3)

/* Communicators of a rank. Send and Recv run in SIM_PP: NCCL counts none of them. */
enum sim_comm { SIM_TP, SIM_DP, SIM_WORLD, SIM_PP, SIM_COMMS };

struct shape {                    /* of the job */
	int tp, pp, dp, micro;    /* tp 1 and pp 1: FSDP, its operations run over all ranks */
	double step_s;            /* mean */
	double variation;         /* of a replica's steps, natural: deviation, share of the step */
	double run_ahead_s;       /* the host calls so far ahead of its GPU at the most */
	double last_stage_factor; /* work of the last pipeline stage: 1.1 is a loss that weighs a tenth */
};

/* What a host does instead of the next call. */
enum pause_kind {
	PAUSE_NONE,
	PAUSE_SLEEP,   /* a queue or a lock: asleep without a break */
	PAUSE_WORK,    /* on a CPU: compiles, collects garbage, spins */
	PAUSE_STORAGE, /* reads or writes, in D state now and then */
	PAUSE_D,       /* in D state without end */
	PAUSE_STOPPED,
	PAUSE_DEAD,
	PAUSE_KINDS
};

struct rank_pause { /* of one rank in this step; one at most */
	enum pause_kind kind;
	int op;         /* it comes before the host calls that */
	double s;       /* INFINITY: it never calls */
	double begin_s; /* when the host got there; set by the step */
	double from_s;  /* 0; else from that time on, wherever the host is then, */
	double to_s;    /* until then; INFINITY: for ever */
};

struct sim_rank {
	struct rank_pause pause;
	double gpu_factor;          /* of its work on the GPU; 1 */
	double host_factor;         /* of the time between its calls */
	bool world_first;           /* it calls the job-wide operation before `pause.op`, and waits there */
	unsigned long n[SIM_COMMS]; /* collectives that were called, up to the begin of this step */
};

struct sim_op {
	enum sim_comm comm;
	int micro; /* of a pass; else -1 */
	bool forward;
};

struct step_arrays { /* [rank][n_ops] of one step; INFINITY: never */
	double *called, *ended;
	double *begun, *started; /* its work on the GPU before the operation; then the GPU is ready for it */
};

struct cluster {
	struct shape shape;
	int n_ranks, n_hosts, n_ops; /* operations of a rank in a step */
	struct sim_rank *ranks;
	struct sim_op *program;         /* [pp][n_ops] */
	struct step_arrays now, before; /* this step, the one before */
	double *transfer;               /* [rank]: factor of the time that its operations take in SIM_DP; 1 */
	double begin_s, end_s;          /* of this step; end INFINITY: it hangs */
	double work_factor;             /* of this step: an evaluation takes longer */
	unsigned long step;
	int queue;             /* the host is so many operations ahead at the most */
	double *last, *factor; /* scratch, by communicator */
	unsigned generation;   /* a restart makes other processes and communicators */
	double gone_s;         /* before this one its processes ended; INFINITY: there was no other */
	struct draw noise;
};

/* 0 or -ENOMEM, -EINVAL (micro too large, or ranks that fill no host). */
int cluster_init(struct cluster *c, const struct shape *s, unsigned long seed);
void cluster_free(struct cluster *c);
/* The next step begins where this one ended; who pauses in it is set before. Its times are known from here on. */
void cluster_step(struct cluster *c);
/* The step that comes: no rank pauses, and it is as long as any. */
void cluster_reset(struct cluster *c);
/* After the present step all processes end, and new ones go on `gap_s` later. */
void cluster_restart(struct cluster *c, double gap_s);

int rank_stage(const struct cluster *c, int rank);
int rank_replica(const struct cluster *c, int rank);
int rank_in(const struct cluster *c, int rank, enum sim_comm comm); /* its number in that communicator */
int comm_size(const struct cluster *c, enum sim_comm comm);         /* 1: there is none */
int comm_number(const struct cluster *c, int rank, enum sim_comm comm);

static inline const struct sim_op *rank_op(const struct cluster *c, int rank, int op)
{
	return &c->program[rank_stage(c, rank) * c->n_ops + op];
}

static inline double *rank_times(double *of, const struct cluster *c, int rank)
{
	return of + (size_t)rank * c->n_ops;
}

/* Of this step: the first time at which a GPU waits in an operation that never ends; INFINITY: none does. `but`: ranks
 * that are no victims are the caller's to exclude. */
double cluster_first_wait(const struct cluster *c, int but);

enum host_state { HOST_CALLS, HOST_WAITS /* for its GPU */, HOST_PAUSES };
/* At `at_s`, which lies in this step. */
enum host_state host_state_at(const struct cluster *c, int rank, double at_s);

#endif
